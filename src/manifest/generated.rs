//! Names of objects that state only `generateName`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Manifests;

impl Manifests {
    /// Names these objects by their prefix and a number, instead of the random letters of the API server. A number whose
    /// name another object of the kind has is passed over.
    pub(crate) fn generate_names(&mut self) {
        let mut taken: BTreeSet<_> = self
            .objects
            .iter()
            .map(|object| (object.kind, object.namespace().to_string(), object.name().to_string()))
            .collect();
        let mut next: BTreeMap<_, u32> = BTreeMap::new();
        for object in &mut self.objects {
            let prefix = object.metadata("generateName").to_string();
            if prefix.is_empty() || !object.name().is_empty() {
                continue;
            }
            let (kind, namespace) = (object.kind, object.namespace().to_string());
            let number = next.entry((kind, namespace.clone(), prefix.clone())).or_default();
            let name = loop {
                *number += 1;
                let name = format!("{prefix}{number}");
                if taken.insert((kind, namespace.clone(), name.clone())) {
                    break name;
                }
            };
            if let Some(Value::Object(metadata)) = object.value.get_mut("metadata") {
                metadata.insert("name".to_string(), Value::from(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::fine;

    #[test]
    fn an_object_of_generate_name_is_numbered() {
        let job = |name: &str| {
            format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{{name}}}\nspec: {{template: {{spec: {{restartPolicy: Never, \
                 containers: [{{name: m}}]}}}}}}\n---\n"
            )
        };
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: pi-}\nspec: {containers: [{name: m}]}\n---\n";
        let names = ["generateName: pi-", "generateName: e-", "generateName: pi-", "name: pi-1"];
        let text = names.map(job).concat() + &pod.repeat(2);
        let (manifests, cluster) = fine(&text);
        let jobs = manifests.objects.iter().take(4).map(|object| object.name());
        assert_eq!(jobs.collect::<Vec<_>>(), ["pi-2", "e-1", "pi-3", "pi-1"]);
        let pods = cluster.pods.iter().map(|stated| &*stated.pod.metadata.name);
        assert_eq!(pods.collect::<Vec<_>>(), ["pi-1", "pi-2"]);
    }
}

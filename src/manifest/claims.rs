//! Claims that are made for pods from templates.

use std::collections::BTreeSet;
use std::sync::Arc;

use dryrack_yaml::{Report, Span};

use super::MadeClaim;
use crate::api::ResourceClaim;
use crate::cluster::Cluster;

impl Cluster {
    /// The claim that is made from a template. `None` if there is no such template.
    pub fn claim_from(&self, namespace: &str, made: &MadeClaim) -> Option<ResourceClaim> {
        let is_it = |name: &str, of: &str| name == &*made.template && of == namespace;
        let template = self.claim_templates.iter().find(|known| is_it(&known.name, &known.namespace))?;
        let mut claim = template.claim.clone();
        claim.metadata.name = Arc::clone(&made.claim);
        claim.metadata.namespace = Arc::from(namespace);
        Some(claim)
    }

    /// Adds the claims of pods that are in the files, unless the files have them too.
    pub fn make_claims(&mut self, asked: &[(Arc<str>, MadeClaim, Span)], report: &mut Report) {
        let key = |claim: &ResourceClaim| (claim.metadata.namespace(), Arc::clone(&claim.metadata.name));
        let mut known: BTreeSet<(Arc<str>, Arc<str>)> = self.claims.iter().map(key).collect();
        for (namespace, made, span) in asked {
            if known.contains(&(Arc::clone(namespace), Arc::clone(&made.claim))) {
                continue;
            }
            match self.claim_from(namespace, made) {
                Some(claim) => {
                    known.insert(key(&claim));
                    self.claims.push(claim);
                }
                None => self.missing_template(namespace, &made.template, *span, report),
            }
        }
    }

    /// Warns about a template that is not in the files. Pods that name it wait for ever.
    pub fn missing_template(&self, namespace: &str, template: &str, span: Span, report: &mut Report) {
        let of_namespace = self.claim_templates.iter().filter(|known| &*known.namespace == namespace);
        let names = of_namespace.map(|known| &*known.name);
        let help = dryrack_nearest::hint(template, names).unwrap_or_else(|| "add it, or its pods wait".to_string());
        let message = format!("no ResourceClaimTemplate of namespace `{namespace}` is named `{template}`");
        report.warning(span, message, help);
    }

    /// Warns about claims that pods name and that are not in the files.
    pub fn check_claims(&self, report: &mut Report) {
        let known: BTreeSet<(Arc<str>, &str)> =
            self.claims.iter().map(|claim| (claim.metadata.namespace(), &*claim.metadata.name)).collect();
        let stated = self.pods.iter().map(|stated| (&stated.pod, stated.span));
        let made = self
            .controllers
            .iter()
            .flat_map(|controller| controller.sets.iter().map(move |set| (&set.template, controller.span)));
        for (pod, span) in stated.chain(made) {
            let namespace = pod.metadata.namespace();
            for claim in &pod.spec.resource_claims {
                let Some(name) = &claim.resource_claim_name else { continue };
                if !known.contains(&(Arc::clone(&namespace), &**name)) {
                    let message = format!("no ResourceClaim of namespace `{namespace}` is named `{name}`");
                    let names = known.iter().filter(|(of, _)| *of == namespace).map(|(_, name)| *name);
                    let help = dryrack_nearest::hint(name, names);
                    report.warning(span, message, help.unwrap_or_else(|| "add it, or its pods wait".to_string()));
                }
            }
        }
    }
}

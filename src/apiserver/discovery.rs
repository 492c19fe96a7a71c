//! Which groups, versions and kinds there are.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroup, APIGroupList, APIResource, APIResourceList, APIVersions, GroupVersionForDiscovery,
};
use k8s_openapi::apimachinery::pkg::version::Info;
use serde::Serialize;
use serde_json::Value;

use super::fault::Fault;
use super::resource::Resource;
use super::store::Store;

fn json(answer: impl Serialize) -> Value {
    serde_json::to_value(answer).expect("the types of the API can be written")
}

pub(crate) fn version(store: &Store) -> Value {
    let mut numbers = store.release.trim_start_matches('v').split('.');
    let mut next = || numbers.next().unwrap_or_default().to_owned();
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    json(Info { git_version: store.release.clone(), major: next(), minor: next(), platform, ..Info::default() })
}

pub(crate) fn core_versions() -> Value {
    let versions = vec!["v1".to_owned()];
    json(APIVersions { server_address_by_client_cidrs: Vec::new(), versions })
}

pub(crate) fn groups(store: &Store) -> Value {
    let mut names: Vec<Arc<str>> = store.tables.iter().map(|table| Arc::clone(&table.resource.group)).collect();
    names.sort();
    names.dedup();
    let groups = names.iter().filter(|name| !name.is_empty()).map(|name| group_of(store, name)).collect();
    json(APIGroupList { groups })
}

pub(crate) fn group(store: &Store, name: &str) -> Result<Value, Fault> {
    let group = group_of(store, name);
    if group.versions.is_empty() { Err(Fault::NotServed(format!("group {name}"))) } else { Ok(json(group)) }
}

fn resources<'a>(store: &'a Store, group: &'a str) -> impl Iterator<Item = &'a Resource> {
    store.tables.iter().map(|table| &*table.resource).filter(move |resource| *resource.group == *group)
}

fn group_of(store: &Store, name: &str) -> APIGroup {
    let mut versions: Vec<Arc<str>> = Vec::new();
    for version in resources(store, name).flat_map(|resource| &resource.versions) {
        if !versions.contains(version) {
            versions.push(Arc::clone(version));
        }
    }
    let versions: Vec<GroupVersionForDiscovery> = versions
        .iter()
        .map(|version| GroupVersionForDiscovery {
            group_version: format!("{name}/{version}"),
            version: version.to_string(),
        })
        .collect();
    APIGroup {
        name: name.to_owned(),
        preferred_version: versions.first().cloned(),
        server_address_by_client_cidrs: None,
        versions,
    }
}

pub(crate) fn group_version(store: &Store, group: &str, version: &str) -> Result<Value, Fault> {
    let mut found = Vec::new();
    let serves = |resource: &&Resource| resource.versions.iter().any(|served| **served == *version);
    for resource in resources(store, group).filter(serves) {
        let row = |suffix: &str, verbs: &[&str]| APIResource {
            kind: resource.kind.to_string(),
            name: format!("{}{suffix}", resource.plural),
            namespaced: resource.is_namespaced,
            singular_name: resource.kind.to_lowercase(),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..APIResource::default()
        };
        found.push(row("", &["create", "delete", "get", "list", "patch", "update", "watch"]));
        found.push(row("/status", &["get", "patch", "update"]));
        if &*resource.kind == "Pod" {
            found.push(APIResource { kind: "Binding".to_owned(), ..row("/binding", &["create"]) });
            let group = Some("policy".to_owned());
            let version = Some("v1".to_owned());
            let eviction = APIResource { kind: "Eviction".to_owned(), ..row("/eviction", &["create"]) };
            found.push(APIResource { group, version, ..eviction });
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    match found.is_empty() {
        true => Err(Fault::NotServed(group_version)),
        false => Ok(json(APIResourceList { group_version, resources: found })),
    }
}

//! What the path and the query of a request name.

use super::fault::Fault;

/// A path under `/api` or `/apis`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// `/healthz`, `/livez` and `/readyz`.
    Health,
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/policy`
    Group(String),
    /// `/api/v1`, with an empty group, or `/apis/policy/v1`.
    GroupVersion {
        group: String,
        version: String,
    },
    /// Objects, one object, or a part of one.
    Objects {
        group: String,
        version: String,
        target: Target,
    },
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub plural: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Path {
    /// The path without the token's prefix. Names are taken as they are, because those of Kubernetes need no escapes.
    pub(crate) fn parse(path: &str) -> Path {
        let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
        match steps[..] {
            ["healthz" | "livez" | "readyz"] => Path::Health,
            ["version"] => Path::Version,
            ["api"] => Path::CoreVersions,
            ["apis"] => Path::Groups,
            ["api", version] => Path::GroupVersion { group: String::new(), version: version.to_owned() },
            ["apis", group] => Path::Group(group.to_owned()),
            ["apis", group, version] => Path::GroupVersion { group: group.to_owned(), version: version.to_owned() },
            ["api", version, ref rest @ ..] => objects("", version, rest),
            ["apis", group, version, ref rest @ ..] => objects(group, version, rest),
            _ => Path::Other,
        }
    }
}

fn objects(group: &str, version: &str, rest: &[&str]) -> Path {
    let owned = |text: &&str| (*text).to_owned();
    let (namespace, rest) = match rest {
        // `namespaces/a/status` and `namespaces/a/finalize` are parts of a namespace.
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        _ => (None, rest),
    };
    let [plural, more @ ..] = rest else { return Path::Other };
    if more.len() > 2 {
        return Path::Other;
    }
    let target =
        Target { plural: owned(plural), namespace, name: more.first().map(owned), subresource: more.get(1).map(owned) };
    Path::Objects { group: group.to_owned(), version: version.to_owned(), target }
}

/// The query of a list or watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub watch: bool,
    pub resource_version: Option<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub limit: Option<usize>,
    pub continue_at: Option<String>,
    pub timeout_seconds: Option<u64>,
    pub bookmarks: bool,
    pub send_initial_events: bool,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Result<Query, Fault> {
        let mut found = Query::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let number = || {
                let fault = || Fault::BadRequest(format!("invalid value {value:?} of {key}: a number is expected"));
                value.parse::<u64>().map_err(|_| fault())
            };
            let is_true = matches!(&*value, "" | "1" | "true");
            match &*key {
                "watch" => found.watch = is_true,
                "resourceVersion" => found.resource_version = Some(value.into_owned()),
                "labelSelector" => found.label_selector = Some(value.into_owned()),
                "fieldSelector" => found.field_selector = Some(value.into_owned()),
                "limit" => {
                    found.limit = Some(usize::try_from(number()?).unwrap_or(usize::MAX)).filter(|limit| *limit > 0)
                }
                "continue" => found.continue_at = Some(value.into_owned()).filter(|text| !text.is_empty()),
                "timeoutSeconds" => found.timeout_seconds = Some(number()?),
                "allowWatchBookmarks" => found.bookmarks = is_true,
                "sendInitialEvents" => found.send_initial_events = is_true,
                // `resourceVersionMatch`, `timeout`, `pretty`, `fieldManager` and others do not change the answer.
                _ => {}
            }
        }
        Ok(found)
    }

    /// The version from which to watch. `None` asks for the present state first, as no version and 0 do.
    pub(crate) fn version(&self) -> Result<Option<u64>, Fault> {
        match self.resource_version.as_deref() {
            None | Some("" | "0") => Ok(None),
            Some(text) => {
                let fault = || Fault::BadRequest(format!("invalid resource version {text:?}"));
                text.parse().map(Some).map_err(|_| fault())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Path, Target};

    #[test]
    fn paths_name_objects_and_their_parts() {
        let target = |plural: &str, namespace: &str, name: &str, subresource: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Target {
                plural: plural.to_owned(),
                namespace: some(namespace),
                name: some(name),
                subresource: some(subresource),
            }
        };
        for (path, group, expected) in [
            ("/api/v1/pods", "", target("pods", "", "", "")),
            ("/api/v1/namespaces/a/pods/b/binding", "", target("pods", "a", "b", "binding")),
            ("/api/v1/namespaces/a", "", target("namespaces", "", "a", "")),
            ("/api/v1/namespaces/a/status", "", target("namespaces", "", "a", "status")),
            ("/api/v1/nodes/n/status", "", target("nodes", "", "n", "status")),
            ("/apis/policy/v1/poddisruptionbudgets", "policy", target("poddisruptionbudgets", "", "", "")),
        ] {
            let version = "v1".to_owned();
            assert_eq!(
                Path::parse(path),
                Path::Objects { group: group.to_owned(), version, target: expected },
                "{path}"
            );
        }
    }

    #[test]
    fn paths_of_discovery_and_unknown_paths_are_told_apart() {
        let group = Path::GroupVersion { group: "policy".to_owned(), version: "v1".to_owned() };
        assert_eq!(Path::parse("/apis/policy/v1"), group);
        assert_eq!(Path::parse("/apis"), Path::Groups);
        assert_eq!(Path::parse("/openapi/v2"), Path::Other);
        assert_eq!(Path::parse("/api/v1/namespaces/a/pods/b/log/c"), Path::Other);
    }
}

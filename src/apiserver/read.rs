//! One object, and lists of objects.

use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::key::ObjectKey;
use super::path::Query;
use super::selector::Selector;
use super::store::Store;
use super::table::Stored;

/// The text of an object in a version of its group.
pub(crate) fn text_in(store: &Store, table: usize, version: &str, stored: &Stored) -> String {
    let resource = &store.tables[table].resource;
    if *resource.versions[0] == *version {
        return stored.text.to_string();
    }
    let mut value = (*stored.value).clone();
    value["apiVersion"] = Value::from(resource.api_version(version));
    value.to_string()
}

/// A list, in the order of namespaces and names. A page of it ends with a token from which the next page continues.
pub(crate) fn list(
    store: &mut Store,
    table: usize,
    version: &str,
    namespace: Option<&str>,
    query: &Query,
) -> Result<String, Fault> {
    let kind = store.tables[table].resource.kind.clone();
    let selector = Selector::parse(&kind, query.label_selector.as_deref(), query.field_selector.as_deref())?;
    if let Some(asked) = query.version()?.filter(|asked| *asked > store.version) {
        return Err(Fault::FutureVersion { asked, current: store.version });
    }
    let (at, after) = match &query.continue_at {
        None => (store.version, None),
        Some(token) => resume(store, table, token)?,
    };
    let found = &store.tables[table];
    let mut items: Vec<String> = Vec::new();
    let mut rest = found
        .from(after.as_ref())
        .filter(|(key, stored)| {
            namespace.is_none_or(|namespace| *key.namespace == *namespace) && selector.selects(&stored.value)
        })
        .peekable();
    let mut last = None;
    while let Some((key, stored)) = rest.next_if(|_| query.limit.is_none_or(|limit| items.len() < limit)) {
        items.push(text_in(store, table, version, stored));
        last = Some(key);
    }
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), Value::from(at.to_string()));
    if let (Some(_), Some(key)) = (rest.peek(), last) {
        metadata.insert("continue".to_owned(), Value::from(format!("{at}:{}:{}", key.namespace, key.name)));
    }
    let (list_kind, api_version) = (format!("{kind}List"), found.resource.api_version(version));
    drop(rest);
    let head = json!({"kind": list_kind, "apiVersion": api_version, "metadata": metadata}).to_string();
    let text = format!("{},\"items\":[{}]}}", head.strip_suffix('}').unwrap_or(&head), items.join(","));
    store.tables[table].acknowledge(at);
    Ok(text)
}

/// The version and the key at which a list continues. A list cannot continue after a change, because its pages would
/// not be of one state.
fn resume(store: &Store, table: usize, token: &str) -> Result<(u64, Option<ObjectKey>), Fault> {
    let malformed = || Fault::BadRequest(format!("continue key is not valid: {token:?}"));
    let mut parts = token.splitn(3, ':');
    let mut next = || parts.next().ok_or_else(malformed);
    let (version, namespace, name) = (next()?, next()?, next()?);
    let version: u64 = version.parse().map_err(|_| malformed())?;
    if version > store.version {
        return Err(malformed());
    }
    if store.tables[table].newest > version {
        return Err(Fault::Expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new \
             list without the continue parameter."
                .to_owned(),
        ));
    }
    Ok((version, Some(ObjectKey::new(namespace, name))))
}

//! From a request to its answer.

use std::sync::Arc;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use serde_json::Value;
use tokio::sync::mpsc;

use super::fault::Fault;
use super::key::ObjectKey;
use super::path::{Path, Query, Target};
use super::read::{list, text_in};
use super::reply::Reply;
use super::shared::Shared;
use super::store::Store;
use super::watch::Watch;
use super::write::{self, Part, PatchKind};
use super::{discovery, pods};

const JSON: &str = "application/json";
const PATCHES: &str = "application/strategic-merge-patch+json, application/merge-patch+json";

/// What is sent back.
enum Answer {
    Json(u16, String),
    Watch(Box<Watch>),
}

/// Answers one request. A refusal is an answer too.
pub(crate) async fn answer(shared: Arc<Shared>, request: Request<Incoming>, is_full: bool) -> Response<Reply> {
    let answered = match is_full {
        true => Err(Fault::TooMany(format!("{} connections are open; no more are served", shared.most_connections))),
        false => read_and_dispatch(&shared, request).await,
    };
    let (status, reply) = match answered {
        Ok(Answer::Json(status, text)) => (status, Reply::Whole(Some(Bytes::from(text)))),
        Ok(Answer::Watch(watch)) => {
            let (out, lines) = mpsc::channel(4);
            tokio::spawn(watch.run(Arc::clone(&shared), out));
            (200, Reply::Lines(lines))
        }
        Err(fault) => {
            let (status, _) = fault.code();
            *shared.lock().refused.entry(status).or_default() += 1;
            let text = serde_json::to_string(&fault.status()).expect("the types of the API can be written");
            (status, Reply::Whole(Some(Bytes::from(text))))
        }
    };
    shared.notify();
    let response = Response::builder().status(status).header(CONTENT_TYPE, JSON).body(reply);
    response.expect("the head of an answer is valid")
}

/// The status and the body of the answer to a request whose body is here.
pub(crate) fn at_once(shared: &Shared, parts: &Parts, body: &[u8]) -> (u16, String) {
    match dispatch(&mut shared.lock(), parts, parts.uri.path(), body) {
        Ok(Answer::Json(status, text)) => (status, text),
        Ok(Answer::Watch(_)) => (200, String::new()),
        Err(fault) => {
            (fault.code().0, serde_json::to_string(&fault.status()).expect("the types of the API can be written"))
        }
    }
}

async fn read_and_dispatch(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Fault> {
    let (parts, body) = request.into_parts();
    let path = authorized_path(shared, &parts)?.to_owned();
    accepts_json(&parts.headers)?;
    let (limit, within) = {
        let limits = shared.lock().limits;
        (limits.body, limits.request)
    };
    let stated = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|stated| stated > limit as u64) {
        return Err(Fault::TooLarge(limit));
    }
    let collected = tokio::time::timeout(within, Limited::new(body, limit).collect()).await;
    let bytes = match collected {
        Err(_) => return Err(Fault::Timeout(within.as_secs())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Fault::TooLarge(limit)),
        Ok(Err(error)) => return Err(Fault::BadRequest(format!("the body of the request cannot be read: {error}"))),
        Ok(Ok(body)) => body.to_bytes(),
    };
    dispatch(&mut shared.lock(), &parts, &path, &bytes)
}

/// The path without the token. The token is the first step of the path, or the bearer token of the request.
fn authorized_path<'a>(shared: &Shared, parts: &'a Parts) -> Result<&'a str, Fault> {
    let path = parts.uri.path();
    let rest = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    if let Some((first, _)) = rest.filter(|(first, _)| is_same(first, &shared.token)) {
        return Ok(&path[1 + first.len()..]);
    }
    let bearer = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    match bearer {
        Some(bearer) if is_same(bearer.trim(), &shared.token) => Ok(path),
        _ => Err(Fault::Unauthorized),
    }
}

/// Compares in a time that does not depend on the place of the first difference.
fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |found, (one, other)| found | (one ^ other));
    one.len() == other.len() && differences == 0
}

fn accepts_json(headers: &HeaderMap) -> Result<(), Fault> {
    let Some(accept) = headers.get(ACCEPT) else { return Ok(()) };
    let accept = accept.to_str().unwrap_or_default();
    let is_json =
        |range: &str| matches!(range.split(';').next().unwrap_or_default().trim(), JSON | "application/*" | "*/*");
    if accept.trim().is_empty() || accept.split(',').any(is_json) {
        return Ok(());
    }
    Err(Fault::NotAcceptable(accept.to_owned()))
}

fn media_type(headers: &HeaderMap) -> &str {
    let stated = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(JSON);
    stated.split(';').next().unwrap_or_default().trim()
}

fn parse_json(bytes: &[u8]) -> Result<Value, Fault> {
    serde_json::from_slice(bytes)
        .map_err(|error| Fault::BadRequest(format!("the body of the request is not valid JSON: {error}")))
}

fn json_body(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Fault> {
    match media_type(headers) {
        JSON | "" => parse_json(bytes),
        other => Err(Fault::UnsupportedMediaType(other.to_owned(), JSON)),
    }
}

fn dispatch(store: &mut Store, parts: &Parts, path: &str, body: &[u8]) -> Result<Answer, Fault> {
    let found = find(store, parts, path, body);
    if matches!(found, Err(Fault::NotServed(_))) {
        store.note_unserved(parts.method.as_str(), path);
    }
    found
}

fn find(store: &mut Store, parts: &Parts, path: &str, body: &[u8]) -> Result<Answer, Fault> {
    let not_served = || Fault::NotServed(path.to_owned());
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let found = match Path::parse(path) {
        Path::Other => Err(not_served()),
        Path::Objects { group, version, target } => {
            if target.plural == "bindings" && group.is_empty() && parts.method == Method::POST {
                let body = json_body(&parts.headers, body)?;
                return pods::bind(store, target.namespace.as_deref(), None, &body).map(created);
            }
            let table = store.find(&group, &version, &target.plural).ok_or_else(not_served)?;
            return objects(store, parts, table, &version, &target, body)?.ok_or_else(not_served);
        }
        _ if !is_read => return Err(Fault::MethodNotAllowed(parts.method.to_string())),
        Path::Health => return Ok(Answer::Json(200, "\"ok\"".to_owned())),
        Path::Version => Ok(discovery::version(store)),
        Path::CoreVersions => Ok(discovery::core_versions()),
        Path::Groups => Ok(discovery::groups(store)),
        Path::Group(name) => discovery::group(store, &name),
        Path::GroupVersion { group, version } => discovery::group_version(store, &group, &version),
    };
    found.map(|value| Answer::Json(200, value.to_string()))
}

fn created(value: Value) -> Answer {
    Answer::Json(201, value.to_string())
}

/// A request about objects of a kind that is served. `None` if it names a part that is not served.
fn objects(
    store: &mut Store,
    parts: &Parts,
    table: usize,
    version: &str,
    target: &Target,
    body: &[u8],
) -> Result<Option<Answer>, Fault> {
    let resource = Arc::clone(&store.tables[table].resource);
    let namespace = target.namespace.as_deref();
    if !resource.is_namespaced && namespace.is_some() {
        return Ok(None);
    }
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let Some(name) = target.name.as_deref() else {
        return match parts.method {
            Method::POST => {
                let object = json_body(&parts.headers, body)?;
                let value = write::create(store, table, namespace, object)?;
                Ok(Some(Answer::Json(201, in_version(&resource, version, value))))
            }
            _ if is_read => {
                let query = Query::parse(parts.uri.query().unwrap_or_default())?;
                if query.watch {
                    let key = ObjectKey::new(namespace.unwrap_or_default(), "");
                    let watch = Watch::open(store, table, version, key, &query)?;
                    return Ok(Some(Answer::Watch(Box::new(watch))));
                }
                let text = list(store, table, version, namespace, &query)?;
                Ok(Some(Answer::Json(200, text)))
            }
            _ => Err(Fault::MethodNotAllowed(parts.method.to_string())),
        };
    };
    if resource.is_namespaced && namespace.is_none() {
        return Ok(None);
    }
    let key = ObjectKey::new(namespace.unwrap_or_default(), name);
    let part = match target.subresource.as_deref() {
        None => Part::Main,
        Some("status") => Part::Status,
        Some("binding") if &*resource.kind == "Pod" && parts.method == Method::POST => {
            let body = json_body(&parts.headers, body)?;
            return pods::bind(store, namespace, Some(name), &body).map(|value| Some(created(value)));
        }
        Some("eviction") if &*resource.kind == "Pod" && parts.method == Method::POST => {
            let body = json_body(&parts.headers, body)?;
            return pods::evict_within_budgets(store, &key, &body).map(|value| Some(created(value)));
        }
        Some(_) => return Ok(None),
    };
    let value = match parts.method {
        _ if is_read => {
            let stored = Arc::clone(store.get(table, &key)?);
            return Ok(Some(Answer::Json(200, text_in(store, table, version, &stored))));
        }
        Method::PUT => write::update(store, table, &key, part, json_body(&parts.headers, body)?)?,
        Method::PATCH => {
            let kind = match media_type(&parts.headers) {
                "application/strategic-merge-patch+json" => PatchKind::Strategic,
                "application/merge-patch+json" => PatchKind::Merge,
                other => return Err(Fault::UnsupportedMediaType(other.to_owned(), PATCHES)),
            };
            write::patch(store, table, &key, part, kind, parse_json(body)?)?
        }
        Method::DELETE if part == Part::Main => {
            let options = if body.is_empty() { Value::Null } else { json_body(&parts.headers, body)? };
            write::delete(store, table, &key, &options)?
        }
        _ => return Err(Fault::MethodNotAllowed(parts.method.to_string())),
    };
    Ok(Some(Answer::Json(200, in_version(&resource, version, value))))
}

/// An answer states the version that the path asked for.
fn in_version(resource: &super::resource::Resource, version: &str, mut value: Value) -> String {
    value["apiVersion"] = Value::from(resource.api_version(version));
    value.to_string()
}

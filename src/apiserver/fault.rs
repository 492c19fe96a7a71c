//! Why a request is refused. Each fault has the HTTP status and the reason that a Kubernetes API server gives.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusDetails};
use thiserror::Error;

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("{0}")]
    BadRequest(String),
    #[error("the request has no valid token")]
    Unauthorized,
    #[error("{0}")]
    Forbidden(String),
    #[error("the server could not find the requested resource: {0}")]
    NotServed(String),
    #[error("{resource} {name:?} not found")]
    NotFound { resource: String, name: String },
    #[error("the server does not allow {0} on the requested resource")]
    MethodNotAllowed(String),
    #[error("the only answer is application/json, which the request does not accept: {0}")]
    NotAcceptable(String),
    #[error("the request was not read completely within {0} s")]
    Timeout(u64),
    #[error("{resource} {name:?} already exists")]
    AlreadyExists { resource: String, name: String },
    #[error("Operation cannot be fulfilled on {resource} {name:?}: {why}")]
    Conflict { resource: String, name: String, why: String },
    #[error("{0}")]
    Expired(String),
    #[error("the body of the request has more than {0} bytes")]
    TooLarge(usize),
    #[error("the body of the request was in an unknown format, {0}; accepted: {1}")]
    UnsupportedMediaType(String, &'static str),
    #[error("{resource} {name:?} is invalid: {why}")]
    Invalid { resource: String, name: String, why: String },
    #[error("{0}")]
    TooMany(String),
    #[error("Too large resource version: {asked}, current: {current}")]
    FutureVersion { asked: u64, current: u64 },
}

impl Fault {
    /// The HTTP status and the machine-readable reason.
    pub fn code(&self) -> (u16, &'static str) {
        match self {
            Fault::BadRequest(_) => (400, "BadRequest"),
            Fault::Unauthorized => (401, "Unauthorized"),
            Fault::Forbidden(_) => (403, "Forbidden"),
            Fault::NotServed(_) | Fault::NotFound { .. } => (404, "NotFound"),
            Fault::MethodNotAllowed(_) => (405, "MethodNotAllowed"),
            Fault::NotAcceptable(_) => (406, "NotAcceptable"),
            Fault::Timeout(_) => (408, "Timeout"),
            Fault::AlreadyExists { .. } => (409, "AlreadyExists"),
            Fault::Conflict { .. } => (409, "Conflict"),
            Fault::Expired(_) => (410, "Expired"),
            Fault::TooLarge(_) => (413, "RequestEntityTooLarge"),
            Fault::UnsupportedMediaType(..) => (415, "UnsupportedMediaType"),
            Fault::Invalid { .. } => (422, "Invalid"),
            Fault::TooMany(_) => (429, "TooManyRequests"),
            Fault::FutureVersion { .. } => (504, "Timeout"),
        }
    }

    pub(crate) fn status(&self) -> Status {
        let (code, reason) = self.code();
        let details = match self {
            Fault::NotFound { resource, name }
            | Fault::AlreadyExists { resource, name }
            | Fault::Conflict { resource, name, .. }
            | Fault::Invalid { resource, name, .. } => Some(StatusDetails {
                kind: Some(resource.clone()),
                name: Some(name.clone()),
                ..StatusDetails::default()
            }),
            Fault::TooMany(_) => Some(StatusDetails { retry_after_seconds: Some(1), ..StatusDetails::default() }),
            Fault::FutureVersion { .. } => Some(too_large_version()),
            _ => None,
        };
        Status {
            code: Some(i32::from(code)),
            details,
            message: Some(self.to_string()),
            metadata: ListMeta::default(),
            reason: Some(reason.to_owned()),
            status: Some("Failure".to_owned()),
        }
    }
}

/// The details by which clients recognize a version that this server has not reached.
fn too_large_version() -> StatusDetails {
    let cause = k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause {
        field: None,
        message: Some("Too large resource version".to_owned()),
        reason: Some("ResourceVersionTooLarge".to_owned()),
    };
    StatusDetails { causes: Some(vec![cause]), retry_after_seconds: Some(1), ..StatusDetails::default() }
}

//! A client that writes bytes as it likes, for tests of the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use dryrack_apiserver::{ObjectKey, Server};
use serde_json::{Value, json};

/// An answer: its HTTP status and its body.
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

pub fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time is accepted");
    stream
}

/// Sends bytes and reads the status of the answer. `None` if the server closes the connection without one.
pub fn status_of(stream: &mut TcpStream, bytes: &[u8]) -> Option<u16> {
    let _closed = stream.write_all(bytes);
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

/// One request with the server's token in its path.
pub fn ask(server: &Server, method: &str, path: &str, kind: &str, body: &str) -> Answer {
    let head = format!("{method} /{}{path} HTTP/1.1", server.token());
    send(server, &head, kind, body)
}

/// One request with a first line of the caller's.
pub fn send(server: &Server, first_line: &str, kind: &str, body: &str) -> Answer {
    let mut stream = connect(server);
    let text = format!(
        "{first_line}\r\nHost: here\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // The server may answer before it has read everything.
    let _closed = stream.write_all(text.as_bytes());
    let mut answer = Vec::new();
    let _closed = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Answer { status, body: serde_json::from_str(body).unwrap_or(Value::Null) }
}

pub const JSON: &str = "application/json";

pub fn get(server: &Server, path: &str) -> Answer {
    ask(server, "GET", path, JSON, "")
}

/// A node and a pod that waits.
pub fn a_small_world(server: &Server) -> ObjectKey {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "alpha"},
        "status": {"allocatable": {"cpu": 4, "pods": "10"}}});
    server.apply(node).expect("a node");
    server.apply(pod("web")).expect("a pod")
}

pub fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "web"}]}})
}

pub fn binding(node: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": node}})
        .to_string()
}

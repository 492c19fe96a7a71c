//! Clients that send what no scheduler would send. Each gets a named error, and nothing is lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use super::client::{JSON, a_small_world, ask, binding, connect, get, pod, send, status_of};
use dryrack_apiserver::{Heard, Limits, ObjectKey, Resource, Server};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BINDING: &str = "/api/v1/namespaces/default/pods/web/binding";
const LONG: Duration = Duration::from_secs(20);
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn server(limits: Limits) -> Server {
    Server::start(limits, "v1.35.0").expect("loopback is there")
}

/// The server still holds the same world, and binds a pod.
fn nothing_is_lost(server: &Server, web: &ObjectKey, before: &Value) {
    assert_eq!(server.take_heard(), []);
    assert_eq!(*server.get("Pod", web).expect("the pod is there"), *before);
    assert_eq!(ask(server, "POST", BINDING, JSON, &binding("alpha")).status, 201);
    assert_eq!(server.take_heard(), [Heard::Bound { pod: web.clone(), node: "alpha".into() }]);
}

/// Each request gets this HTTP status and this reason.
fn are_refused(requests: &[(&str, &str, &str, &str, u16, &str)]) {
    let server = server(Limits::default());
    let web = a_small_world(&server);
    let before = server.get("Pod", &web).expect("the pod is there");
    for (method, path, kind, body, status, reason) in requests {
        let answer = ask(&server, method, path, kind, body);
        let found = (answer.status, answer.body["reason"].as_str().unwrap_or_default());
        assert_eq!(found, (*status, *reason), "{method} {path} {body}: {}", answer.body);
        assert!(!answer.body["message"].as_str().unwrap_or_default().is_empty(), "{method} {path}");
        assert_eq!(answer.body["kind"], "Status", "{method} {path}");
    }
    nothing_is_lost(&server, &web, &before);
}

#[test]
fn malformed_requests_are_named() {
    let deep = "[".repeat(100_000);
    are_refused(&[
        ("POST", BINDING, JSON, "{\"target\": ", 400, "BadRequest"),
        ("POST", BINDING, JSON, "\u{0}", 400, "BadRequest"),
        ("POST", BINDING, JSON, &deep, 400, "BadRequest"),
        ("POST", BINDING, JSON, "[]", 400, "BadRequest"),
        ("POST", BINDING, JSON, "{\"metadata\": {\"name\": 7}, \"target\": {}}", 400, "BadRequest"),
        ("POST", BINDING, JSON, "{\"metadata\": {\"name\": \"web\"}, \"target\": {}}", 422, "Invalid"),
        ("POST", BINDING, "application/vnd.kubernetes.protobuf", "k8s", 415, "UnsupportedMediaType"),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/web/status",
            "application/json-patch+json",
            "[]",
            415,
            "UnsupportedMediaType",
        ),
        ("PATCH", "/api/v1/namespaces/default/pods/web/status", STRATEGIC, "7", 400, "BadRequest"),
        ("PATCH", "/api/v1/namespaces/default/pods/web/status", STRATEGIC, "{\"$patch\": \"delete\"}", 422, "Invalid"),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/web/status",
            STRATEGIC,
            "{\"status\": {\"conditions\": 1}}",
            400,
            "BadRequest",
        ),
        ("GET", "/api/v1/pods?limit=many", JSON, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?fieldSelector=spec.colour%3Dred", JSON, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?labelSelector=a%20b", JSON, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?continue=elsewhere", JSON, "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?watch=1&resourceVersion=new", JSON, "", 400, "BadRequest"),
        ("TRACE", PODS, JSON, "", 405, "MethodNotAllowed"),
        ("DELETE", PODS, JSON, "", 405, "MethodNotAllowed"),
        ("POST", "/version", JSON, "{}", 405, "MethodNotAllowed"),
    ]);
}

#[test]
fn what_is_no_http_is_refused() {
    let server = server(Limits::default());
    let web = a_small_world(&server);
    let before = server.get("Pod", &web).expect("the pod is there");
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", &[0xff; 64]] {
        assert!(matches!(status_of(&mut connect(&server), bytes), Some(400) | None), "{bytes:?}");
    }
    nothing_is_lost(&server, &web, &before);
}

#[test]
fn huge_requests_are_refused_before_they_are_kept() {
    let server = server(Limits { body: 10_000, ..Limits::default() });
    let web = a_small_world(&server);
    let before = server.get("Pod", &web).expect("the pod is there");
    let answer = ask(&server, "POST", BINDING, JSON, &" ".repeat(10_001));
    assert_eq!((answer.status, &answer.body["reason"]), (413, &json!("RequestEntityTooLarge")));
    // Stated as short, or not at all: the limit holds for what comes.
    let head = format!("POST /{}{BINDING} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", server.token());
    let chunks = format!("{head}{}", format!("1000\r\n{}\r\n", " ".repeat(0x1000)).repeat(4));
    assert_eq!(status_of(&mut connect(&server), chunks.as_bytes()), Some(413));
    // A head of more than the buffer.
    let head = format!("GET /{}/version HTTP/1.1\r\nX: {}\r\n\r\n", server.token(), "x".repeat(200_000));
    assert_eq!(status_of(&mut connect(&server), head.as_bytes()), Some(431));
    nothing_is_lost(&server, &web, &before);
}

#[test]
fn slow_requests_end_in_time() {
    let short = Duration::from_millis(300);
    let server = server(Limits { head: short, request: short, ..Limits::default() });
    let web = a_small_world(&server);
    let before = server.get("Pod", &web).expect("the pod is there");
    // A head that never ends.
    let mut stream = connect(&server);
    stream.write_all(b"GET /api HTTP/1.1\r\nHost: a\r\n").expect("the server reads");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server closes the connection");
    // A body that never ends.
    let head = format!("POST /{}{BINDING} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{{", server.token());
    assert_eq!(status_of(&mut connect(&server), head.as_bytes()), Some(408));
    assert!(server.refused().iter().any(|(status, times)| (*status, *times) == (408, 2)), "{:?}", server.refused());
    nothing_is_lost(&server, &web, &before);
}

#[test]
fn a_watch_that_is_not_read_ends_and_continues_from_its_version() {
    let server = server(Limits { unread: Duration::from_millis(200), ..Limits::default() });
    let version = get(&server, PODS).body["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let mut stream = connect(&server);
    let request =
        format!("GET /{}{PODS}?watch=1&resourceVersion={version} HTTP/1.1\r\nHost: a\r\n\r\n", server.token());
    stream.write_all(request.as_bytes()).expect("the server reads");
    assert!(server.wait_for_watches(LONG, |watches| watches == 1));
    // More than the buffers of the connection hold.
    let note = "x".repeat(100_000);
    for number in 0..200 {
        let mut pod = pod(&format!("p{number:03}"));
        pod["metadata"]["annotations"] = json!({"note": note});
        server.apply(pod).expect("a pod");
    }
    assert!(server.wait_for_watches(LONG, |watches| watches == 0));
    let again = format!("{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let names = watched(&server, &again);
    assert_eq!(names.len(), 200);
    assert_eq!(names[199], ("ADDED".to_owned(), "p199".to_owned()));
}

/// The kinds and names of the events of a watch until it ends.
fn watched(server: &Server, path: &str) -> Vec<(String, String)> {
    let mut stream = connect(server);
    let head = format!("GET /{}{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", server.token());
    stream.write_all(head.as_bytes()).expect("the server reads");
    let events = BufReader::new(stream).lines().map_while(Result::ok);
    let events = events.filter_map(|line| serde_json::from_str::<Value>(&line).ok()).filter(|event| event.is_object());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events.map(|event| (text(&event["type"]), text(&event["object"]["metadata"]["name"]))).collect()
}

#[test]
fn forged_requests_are_named() {
    let wrong_uid = json!({"metadata": {"name": "web", "uid": "another"}, "target": {"name": "alpha"}}).to_string();
    let wrong_name = json!({"metadata": {"name": "other"}, "target": {"name": "alpha"}}).to_string();
    let pod = pod("web").to_string();
    let stale =
        json!({"metadata": {"name": "web", "resourceVersion": "1"}, "status": {"phase": "Running"}}).to_string();
    let spec = json!({"spec": {"priority": 1_000_000}}).to_string();
    let other_uid = json!({"preconditions": {"uid": "another"}}).to_string();
    let status = format!("{PODS}/web/status");
    let web = format!("{PODS}/web");
    are_refused(&[
        ("POST", BINDING, JSON, &binding("nowhere"), 404, "NotFound"),
        ("POST", BINDING, JSON, &wrong_uid, 409, "Conflict"),
        ("POST", BINDING, JSON, &wrong_name, 400, "BadRequest"),
        ("POST", &format!("{PODS}/none/binding"), JSON, &binding("alpha"), 400, "BadRequest"),
        ("POST", "/api/v1/namespaces/other/pods/web/binding", JSON, &binding("alpha"), 404, "NotFound"),
        ("POST", PODS, JSON, &pod, 403, "Forbidden"),
        ("DELETE", "/api/v1/nodes/alpha", JSON, "", 403, "Forbidden"),
        ("DELETE", &web, JSON, &other_uid, 409, "Conflict"),
        ("PUT", &status, JSON, &stale, 409, "Conflict"),
        ("PATCH", &web, STRATEGIC, &spec, 422, "Invalid"),
        ("PATCH", &web, STRATEGIC, "{\"metadata\": {\"name\": \"other\"}}", 422, "Invalid"),
        ("GET", "/api/v1/pods?watch=1&resourceVersion=999999", JSON, "", 504, "Timeout"),
        ("GET", "/api/v1/pods?resourceVersion=999999", JSON, "", 504, "Timeout"),
        ("GET", "/api/v1/secrets", JSON, "", 404, "NotFound"),
        ("GET", "/etc/passwd", JSON, "", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/../../version", JSON, "", 404, "NotFound"),
    ]);
}

#[test]
fn no_request_is_answered_without_the_token() {
    let server = server(Limits::default());
    let web = a_small_world(&server);
    let before = server.get("Pod", &web).expect("the pod is there");
    let almost = format!("{}0", &server.token()[..31]);
    let almost = if almost == server.token() { almost.replace('0', "1") } else { almost };
    for path in ["/version", "/api/v1/pods", &format!("/{almost}/version"), &format!("/{almost}{BINDING}"), "/", "*"] {
        let answer = send(&server, &format!("GET {path} HTTP/1.1"), JSON, "");
        assert!(matches!(answer.status, 400 | 401), "{path}: {}", answer.status);
    }
    let bearer = |token: &str| format!("GET /version HTTP/1.1\r\nAuthorization: Bearer {token}");
    assert_eq!(send(&server, &bearer(&almost), JSON, "").status, 401);
    assert_eq!(send(&server, &bearer(server.token()), JSON, "").body["gitVersion"], "v1.35.0");
    nothing_is_lost(&server, &web, &before);
}

#[test]
fn a_pod_is_bound_once_and_not_while_it_is_deleted() {
    let server = server(Limits::default());
    let web = a_small_world(&server);
    let beta = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "beta"}});
    server.apply(beta).expect("a node");
    assert_eq!(ask(&server, "POST", BINDING, JSON, &binding("alpha")).status, 201);
    let again = ask(&server, "POST", BINDING, JSON, &binding("beta"));
    assert_eq!((again.status, &again.body["reason"]), (409, &json!("Conflict")));
    let bound = server.get("Pod", &web).expect("the pod is there");
    assert_eq!(bound["spec"]["nodeName"], "alpha");
    let gone = server.apply(pod("gone")).expect("a pod");
    assert_eq!(ask(&server, "DELETE", &format!("{PODS}/gone"), JSON, "").status, 200);
    let body = binding("alpha").replace("web", "gone");
    assert_eq!(ask(&server, "POST", &format!("{PODS}/gone/binding"), JSON, &body).status, 409);
    let heard = [Heard::Bound { pod: web, node: "alpha".into() }, Heard::Evicted { pod: gone.clone() }];
    assert_eq!(server.take_heard(), heard);
    assert!(server.get("Pod", &gone).is_some(), "the world removes it");
}

#[test]
fn an_old_version_and_a_changed_list_begin_again() {
    let server = server(Limits { versions: 3, ..Limits::default() });
    for number in 0..6 {
        server.apply(pod(&format!("p{number}"))).expect("a pod");
    }
    let old = get(&server, &format!("{PODS}?watch=1&resourceVersion=1"));
    assert_eq!((old.status, &old.body["reason"]), (410, &json!("Expired")));
    let page = get(&server, &format!("{PODS}?limit=4"));
    let names = |body: &Value| body["items"].as_array().map_or(0, Vec::len);
    let token = page.body["metadata"]["continue"].as_str().expect("there is more").to_owned();
    let rest = get(&server, &format!("{PODS}?limit=4&continue={token}"));
    assert_eq!((names(&page.body), names(&rest.body), &rest.body["metadata"]["continue"]), (4, 2, &Value::Null));
    server.apply(pod("p7")).expect("a pod");
    let stale = get(&server, &format!("{PODS}?limit=4&continue={token}"));
    assert_eq!((stale.status, &stale.body["reason"]), (410, &json!("Expired")));
}

#[test]
fn what_was_asked_for_in_vain_is_kept() {
    let server = server(Limits::default());
    let custom = Resource::custom("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", true);
    server.serve(custom);
    assert_eq!(get(&server, "/apis/scheduling.volcano.sh/v1beta1/podgroups").status, 200);
    for path in ["/apis/scheduling.volcano.sh/v1beta1/queues", "/openapi/v2", "/openapi/v2"] {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
    let rows: Vec<(String, u64)> = server.unserved().into_iter().map(|row| (row.path, row.times)).collect();
    let expected = [("/apis/scheduling.volcano.sh/v1beta1/queues".to_owned(), 1), ("/openapi/v2".to_owned(), 2)];
    assert_eq!(rows, expected);
}

#[test]
fn events_of_clients_do_not_pile_up() {
    let server = server(Limits { created: 5, ..Limits::default() });
    let create = |path: &str, body: Value| ask(&server, "POST", path, JSON, &body.to_string()).status;
    for _ in 0..8 {
        let event = json!({"metadata": {"generateName": "e"}, "involvedObject": {}});
        assert_eq!(create("/api/v1/namespaces/default/events", event), 201);
    }
    let kept = get(&server, "/api/v1/events").body["items"].as_array().map_or(0, Vec::len);
    assert_eq!(kept, 5);
    let maps = "/api/v1/namespaces/default/configmaps";
    let statuses: Vec<u16> = (0..6).map(|_| create(maps, json!({"metadata": {"generateName": "m"}}))).collect();
    assert_eq!(statuses, [201, 201, 201, 201, 201, 429]);
}

//! Ten thousand watches, and where the server listens.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::client::{a_small_world, get, pod};
use dryrack_apiserver::{Limits, Server};

const ADDRESS: &str = "DRYRACK_TEST_ADDRESS";
const WATCHES: usize = 10_000;
const LONG: Duration = Duration::from_secs(100);

/// The other side of [`ten_thousand_watches_hear_each_event`]: a process of its own, because a process may not open
/// twice as many files. Without an address it does nothing.
#[test]
fn watch_ten_thousand_times() {
    let Ok(target) = std::env::var(ADDRESS) else { return };
    let (address, path) = target.split_once('/').expect("an address and a path");
    let request = format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let open = |_| {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.write_all(request.as_bytes()).expect("the server reads");
        BufReader::new(stream)
    };
    let mut watches: Vec<BufReader<TcpStream>> = (0..WATCHES).map(open).collect();
    let mut heard = 0;
    for watch in &mut watches {
        let mut lines = watch.lines().map_while(Result::ok);
        heard += usize::from(lines.any(|line| line.contains("\"ADDED\"") && line.contains("\"last\"")));
    }
    println!("heard {heard}");
}

#[test]
fn ten_thousand_watches_hear_each_event() {
    let server = Server::start(Limits::default(), "v1.35.0").expect("loopback is there");
    a_small_world(&server);
    let version = get(&server, "/api/v1/pods").body["metadata"]["resourceVersion"].as_str().expect("one").to_owned();
    let target = format!("{}/{}/api/v1/pods?watch=1&resourceVersion={version}", server.address(), server.token());
    let clients = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crowd::watch_ten_thousand_times", "--nocapture"])
        .env(ADDRESS, target)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test runs again");
    assert!(server.wait_for_watches(LONG, |watches| watches >= WATCHES), "{} watches", server.watches());
    server.apply(pod("first")).expect("a pod");
    server.apply(pod("last")).expect("a pod");
    // The server answers others meanwhile.
    assert_eq!(get(&server, "/version").status, 200);
    let said = clients.wait_with_output().expect("the clients end");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(&format!("heard {WATCHES}")), "{said}");
    assert!(server.wait_for_watches(LONG, |watches| watches == 0), "{} watches", server.watches());
    assert_eq!(get(&server, "/api/v1/pods").body["items"].as_array().map_or(0, Vec::len), 3);
}

#[test]
fn beyond_the_limit_connections_are_told_so() {
    let server = Server::start(Limits { connections: 16, ..Limits::default() }, "v1.35.0").expect("loopback is there");
    let open: Vec<TcpStream> = (0..16).map(|_| super::client::connect(&server)).collect();
    let answer = get(&server, "/version");
    assert_eq!(answer.status, 429);
    drop(open);
    while get(&server, "/version").status != 200 {
        std::thread::yield_now();
    }
}

/// Reads the sockets of this process from `/proc`.
#[test]
fn nothing_listens_beyond_loopback() {
    let server = Server::start(Limits::default(), "v1.35.0").expect("loopback is there");
    let links = std::fs::read_dir("/proc/self/fd").expect("Linux").filter_map(|entry| {
        let target = std::fs::read_link(entry.ok()?.path()).ok()?;
        Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    });
    let own: BTreeSet<String> = links.collect();
    let mut listening = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for row in std::fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let columns: Vec<&str> = row.split_whitespace().collect();
            // State 0A is LISTEN.
            if columns[3] == "0A" && own.contains(columns[9]) {
                listening.push(columns[1].to_owned());
            }
        }
    }
    let port = format!("0100007F:{:04X}", server.address().port());
    assert!(listening.contains(&port), "{listening:?}");
    assert!(listening.iter().all(|address| address.starts_with("0100007F:")), "{listening:?}");
}

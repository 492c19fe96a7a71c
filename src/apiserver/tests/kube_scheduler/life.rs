//! The life of the program, and each kind of decision once.

use std::path::Path;
use std::time::Duration;

use dryrack_apiserver::{Config, Failure, Heard, Limits, ObjectKey, Rehearsal};
use serde_json::{Value, json};

use super::worlds::{PATIENCE, config};

fn node(name: &str, cpu: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "10"}}})
}

fn pod(name: &str, cpu: u32, priority: i32) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"priority": priority, "containers": [
            {"name": "main", "image": "train", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn start(program: &Path, config: Config) -> Rehearsal {
    Rehearsal::start(program, config, Limits::default(), PATIENCE).unwrap_or_else(|fault| panic!("{fault}"))
}

fn settle(rehearsal: &mut Rehearsal) -> Vec<String> {
    let settled = rehearsal.settle().unwrap_or_else(|fault| panic!("{fault}"));
    settled.heard.iter().map(in_words).collect()
}

fn in_words(heard: &Heard) -> String {
    match heard {
        Heard::Bound { pod, node } => format!("{} on {node}", pod.name),
        Heard::Unschedulable { pod, attempt } => match &attempt.nominated {
            None => format!("{} waits", pod.name),
            Some(node) => format!("{} waits for {node}", pod.name),
        },
        Heard::Evicted { pod } => format!("{} evicted", pod.name),
        other => format!("{other:?}"),
    }
}

pub fn what_each_pod_gets_is_told(program: &Path) {
    let mut rehearsal = start(program, config());
    rehearsal.apply(node("alpha", 4)).expect("a node");
    rehearsal.apply(pod("first", 3, 0)).expect("a pod");
    rehearsal.apply(pod("second", 3, 0)).expect("a pod");
    // A binding is written beside the next attempt, so that either can come first.
    let mut heard = settle(&mut rehearsal);
    heard.sort();
    assert_eq!(heard, ["first on alpha", "second waits"]);
    // A node comes after the back-off. The pod is tried by itself.
    rehearsal.pass(Duration::from_secs(60));
    assert_eq!(settle(&mut rehearsal), Vec::<String>::new());
    rehearsal.apply(node("beta", 4)).expect("a node");
    assert_eq!(settle(&mut rehearsal), ["second on beta"]);
    // A pod of a higher priority evicts the one that is easier to spare.
    rehearsal.apply(pod("urgent", 4, 100)).expect("a pod");
    let heard = settle(&mut rehearsal);
    // One pod is evicted, once. The urgent one may be tried again before its victim is gone, and then waits for the same.
    let [evicted, waits, again @ ..] = &heard[..] else { panic!("{heard:?}") };
    assert!(evicted.ends_with("evicted") && waits.contains("waits for"), "{heard:?}");
    assert!(again.iter().all(|later| later == waits), "{heard:?}");
    let victim = ObjectKey::new("default", heard[0].split(' ').next().expect("a name"));
    let freed = heard[1].rsplit(' ').next().expect("a node").to_owned();
    assert!(rehearsal.remove("Pod", &victim));
    assert_eq!(settle(&mut rehearsal), Vec::<String>::new());
    rehearsal.pass(Duration::from_secs(1));
    assert_eq!(settle(&mut rehearsal), [format!("urgent on {freed}")]);
    // Nothing was asked for in vain.
    assert_eq!(rehearsal.unserved(), []);
    assert_eq!(rehearsal.server().refused(), []);
}

pub fn a_program_that_ends_is_named(program: &Path) {
    let wrong = Config {
        own: Some(json!({"profiles": [{"plugins": {"score": {"enabled": [{"name": "None"}]}}}]})),
        ..config()
    };
    match Rehearsal::start(program, wrong, Limits::default(), PATIENCE) {
        Err(Failure::Ended { errors, .. }) => assert!(errors.contains("None"), "{errors}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a plugin that does not exist is accepted"),
    }
    let none = Rehearsal::start(Path::new("/bin/true"), config(), Limits::default(), PATIENCE);
    assert!(matches!(none, Err(Failure::NotStarted(_))));
    let none = Rehearsal::start(Path::new("/none"), config(), Limits::default(), PATIENCE);
    assert!(matches!(none, Err(Failure::NotStarted(_))));
}

/// Reads the sockets of the program from `/proc`.
pub fn no_port_is_open_beyond_loopback(program: &Path) {
    let rehearsal = start(program, config());
    let folder = rehearsal.program_folder().to_string_lossy().into_owned();
    let mut checked = 0;
    for entry in std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok) {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if !line.contains(&folder) || line.starts_with("sh\0") {
            continue;
        }
        checked += 1;
        let links = std::fs::read_dir(entry.path().join("fd")).expect("our own process");
        let sockets: Vec<String> = links
            .filter_map(|link| Some(std::fs::read_link(link.ok()?.path()).ok()?.to_str()?.to_owned()))
            .filter_map(|target| Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
            .collect();
        assert!(!sockets.is_empty(), "it talks to the server");
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            for row in std::fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
                let columns: Vec<&str> = row.split_whitespace().collect();
                let is_own = sockets.iter().any(|socket| *socket == columns[9]);
                // State 0A is LISTEN. The address is in reverse order.
                let is_loopback = columns[1].split_once(':').is_some_and(|(ip, _)| ip.len() == 8 && ip.ends_with("7F"));
                assert!(!is_own || columns[3] != "0A" || is_loopback, "it listens on {}", columns[1]);
            }
        }
    }
    assert_eq!(checked, 1);
}

//! dryrack as a library: the programs in `examples` run, and the public names match a list.

use std::path::Path;

trials! {
    Nothing: [
        the_examples_run,
        the_public_names_are_those_of_the_list,
        what_is_built_is_what_a_file_says,
    ]
}

#[path = "../../examples/control_plane.rs"]
mod control_plane;
#[path = "../../examples/quickstart.rs"]
mod quickstart;
#[path = "../../examples/read_log.rs"]
mod read_log;

fn the_examples_run() {
    quickstart::main();
    read_log::main();
    control_plane::main();
    // All other trials of this process would see the items that it registers.
    let examples = std::env::current_exe().expect("a test has a path");
    let examples = examples.parent().and_then(Path::parent).expect("it is in `deps`").join("examples");
    let own_stages = assert_cmd::Command::new(examples.join("own_stages")).assert().success();
    let said = String::from_utf8_lossy(&own_stages.get_output().stdout).into_owned();
    assert_eq!(said.lines().filter(|line| line.starts_with("ok")).count(), 5, "{said}");
}

/// The public names of the library with their modules, one per line of `src/lib.rs`.
fn public_names(lib: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut module, mut statement) = (String::new(), String::new());
    for line in lib.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(" {")) {
            module = format!("{name}::");
            names.push(name.to_string());
        } else if line == "}" && statement.is_empty() {
            module.clear();
        } else if line.starts_with("pub use ") || !statement.is_empty() {
            statement.push_str(line);
            if line.ends_with(';') {
                let list = statement.rsplit("::").next().expect("a path has a last part");
                let list = list.trim_end_matches(';').trim_start_matches('{').trim_end_matches('}');
                let list = list.split(',').map(str::trim).filter(|name| !name.is_empty());
                names.extend(list.map(|name| format!("{module}{name}")));
                statement.clear();
            }
        } else {
            assert!(!line.starts_with("pub "), "only `pub use` and `pub mod` stand in src/lib.rs: {line}");
        }
    }
    names.sort();
    names
}

fn the_public_names_are_those_of_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let found = public_names(&read("src/lib.rs"));
    let listed: Vec<String> = read("tests/data/public-names.txt").lines().map(str::to_string).collect();
    assert!(found.len() > 20 && found.len() <= 200, "{} public names", found.len());
    let new: Vec<_> = found.iter().filter(|name| !listed.contains(name)).collect();
    let gone: Vec<_> = listed.iter().filter(|name| !found.contains(name)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "tests/data/public-names.txt lacks {new:?} and has {gone:?}, which are not public"
    );
}

fn what_is_built_is_what_a_file_says() {
    use dryrack::prelude::*;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/queues/easy.yaml");
    let from_file = Simulation::from_file(&file).unwrap_or_else(|error| panic!("{error}")).run();
    assert!(from_file.passed() && from_file.metric("jobs_completed").is_some_and(|count| count > 0.0));
    let built = Simulation::builder()
        .node(Node::new("a").cpus(4).ram("8GiB").count(2))
        .job(Job::new("j").cpus(3).count(3).duration("10m").set("user", "ann"))
        .seed(3)
        .expect("max(queue_wait) <= 10m");
    let from_text = Simulation::from_yaml(&built.text()).unwrap_or_else(|error| panic!("{error}")).run();
    let outcome = built.run().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.digest(), from_text.digest());
    assert_eq!(outcome.queue_wait("j-2"), Some(SimDuration::from_secs(600)), "two nodes, one job on each");
    let wrong = Simulation::builder().node(Node::new("a").machine("a100-80g-x9")).build();
    let said = wrong.expect_err("there is no such machine").to_string();
    assert!(said.contains("did you mean") && said.contains("\"machine\": \"a100-80g-x9\""), "{said}");
}

//! The JSON Schemas of scenario files and profile files: the committed files equal the printed ones, and every scenario
//! and profile is valid under its schema.

use std::path::{Path, PathBuf};

use serde_json::Value;

trials! {
    Nothing: [
        the_committed_schemas_are_those_that_are_printed,
        every_scenario_is_valid_under_the_schema,
        the_schema_refuses_what_is_plainly_wrong,
        every_profile_is_valid_under_the_schema,
        the_schema_refuses_what_no_profile_can_state,
    ]
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The stored schemas are those of the code. `DRYRACK_BLESS=1` writes them again; that of profiles is a part of the
/// program, so build it again then.
fn the_committed_schemas_are_those_that_are_printed() {
    let of_profiles = ("src/profile/profile.schema.json", dryrack_profile::derived_schema());
    for (file, schema) in [("scenarios/scenario.schema.json", dryrack_scenario::schema()), of_profiles] {
        let path = root().join(file);
        let printed = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("DRYRACK_BLESS").is_some() {
            std::fs::write(&path, &printed).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == printed, "{file} is not the schema of the code");
    }
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            // Manifests of Kubernetes are not scenarios.
            true if path.ends_with("manifests") => {}
            true => yaml_files(&path, found),
            false if path.to_string_lossy().ends_with(".yaml") => found.push(path),
            false => {}
        }
    }
}

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn faults(validator: &jsonschema::Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn every_scenario_is_valid_under_the_schema() {
    let schema = dryrack_scenario::schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let mut files = Vec::new();
    yaml_files(&root().join("scenarios"), &mut files);
    files.retain(|path| !path.to_string_lossy().ends_with(".profile.yaml"));
    assert!(files.len() > 15, "{files:?}");
    let included = Value::Object(
        [("$ref".to_string(), Value::from("#/$defs/included")), ("$defs".to_string(), schema["$defs"].clone())]
            .into_iter()
            .collect(),
    );
    let of_parts = jsonschema::draft202012::new(&included).unwrap();
    for path in files {
        let is_part = path.to_string_lossy().ends_with(".part.yaml");
        let found =
            faults(if is_part { &of_parts } else { &validator }, &read(&std::fs::read_to_string(&path).unwrap()));
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
    }
}

/// Errors that an editor should underline.
fn the_schema_refuses_what_is_plainly_wrong() {
    let validator = jsonschema::draft202012::new(&dryrack_scenario::schema()).unwrap();
    let fine = "scenario: x\nparams: {n: 1}\nnodes: {fleet: lab}\njobs: [{name: a, gpus: \"${n}\"}]\n";
    assert_eq!(faults(&validator, &read(fine)), Vec::<String>::new());
    let wrong = [
        "nodes: []",
        "scenario: x\nnodse: []",
        "scenario: x\nnodes: [{name: a, machine: l4-x1, sate: ready}]",
        "scenario: x\nnodes: [{name: a, machine: l4-x1, state: redy}]",
        "scenario: x\njobs: {name: a}",
        "scenario: x\njobs: [{gpus: 1}]",
        "scenario: x\nfaults: [{at: 1m, node: a, becomes: redy}]",
        "scenario: x\nexpect: [{job: a, is: running, becuase: node_lost}]",
        "scenario: x\nexpect: [{count: placd, is: 1}]",
    ];
    for text in wrong {
        assert!(!faults(&validator, &read(text)).is_empty(), "{text}");
    }
}

/// The profiles that come with dryrack and those of scenarios, as they are written, and each of the former merged with
/// its bases.
fn every_profile_is_valid_under_the_schema() {
    let validator = jsonschema::draft202012::new(&dryrack_profile::derived_schema()).unwrap();
    let mut files = Vec::new();
    yaml_files(&root().join("src/profile/builtin"), &mut files);
    yaml_files(&root().join("scenarios"), &mut files);
    let is_profile =
        |path: &Path| path.starts_with(root().join("src")) || path.to_string_lossy().ends_with(".profile.yaml");
    files.retain(|path| is_profile(path));
    assert!(files.len() > 60, "{files:?}");
    for path in files {
        let found = faults(&validator, &read(&std::fs::read_to_string(&path).unwrap()));
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
    }
    for name in dryrack_profile::profile_names() {
        let profile = dryrack_profile::load_profile(name, Path::new("")).unwrap_or_else(|faults| panic!("{faults}"));
        let found = faults(&validator, &profile.to_data());
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}

/// Errors that an editor should underline. The first profile is correct.
fn the_schema_refuses_what_no_profile_can_state() {
    let validator = jsonschema::draft202012::new(&dryrack_profile::derived_schema()).unwrap();
    let fine = "{base: easy, name: x, title: X, scheduler: {order: [priority, {order: area, is: job.tasks}]}}";
    assert_eq!(faults(&validator, &read(fine)), Vec::<String>::new());
    let wrong = [
        "{base: easy, title: X}",
        "{base: easy, name: x, title: X, schedular: {}}",
        "{base: easy, name: x, title: X, scheduler: {disciplin: strict}}",
        "{base: easy, name: x, title: X, scheduler: {discipline: strickt}}",
        "{base: easy, name: x, title: X, scheduler: {order: [prioritty]}}",
        "{base: easy, name: x, title: X, scheduler: {order: [{order: area}]}}",
        "{base: easy, name: x, title: X, scheduler: {filters: [{stage: redy}]}}",
        "{base: easy, name: x, title: X, scheduler: {scorers: [{stage: pack}]}}",
        "{base: easy, name: x, title: X, historic: perhaps}",
        "{base: easy, name: x, title: X, passes: {place: {batch: -1}}}",
        "{base: easy, name: x, title: X, flow: polled_flow}",
        "{base: dstack, name: x, title: X, flow: {polled: {gang: halves}}}",
        "{base: easy, name: x, title: X, slurm: {partitions: [{nmae: a}]}}",
    ];
    for text in wrong {
        assert!(!faults(&validator, &read(text)).is_empty(), "{text}");
    }
}

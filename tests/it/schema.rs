//! The JSON Schema of scenario files: the committed file equals the printed one, and every scenario is valid under it.

use std::path::{Path, PathBuf};

use serde_json::Value;

trials! {
    Nothing: [
        the_committed_schema_is_the_one_that_is_printed,
        every_scenario_is_valid_under_the_schema,
        the_schema_refuses_what_is_plainly_wrong,
    ]
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `scenarios/scenario.schema.json` equals the output of `dryrack schema`. `DRYRACK_BLESS=1` writes it again.
fn the_committed_schema_is_the_one_that_is_printed() {
    let path = root().join("scenarios/scenario.schema.json");
    let printed = serde_json::to_string_pretty(&dryrack_scenario::schema()).unwrap() + "\n";
    if std::env::var_os("DRYRACK_BLESS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == printed, "scenarios/scenario.schema.json is not what `dryrack schema` prints");
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

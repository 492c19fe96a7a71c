//! Utilization policies: the page that describes them, and the written definition evaluated plainly beside them.

use assert_cmd::Command;

const PAGE: &str = include_str!("../../scenarios/USAGE-AND-POLICIES.md");

pub fn every_form_of_the_page_of_usage_and_policies_holds() {
    let dir = tempfile::tempdir().expect("a folder");
    let block = PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let path = dir.path().join("page.yaml");
    std::fs::write(&path, block).expect("written");
    let tested = Command::cargo_bin("dryrack").expect("it is built").arg("test").arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success() && !said.contains("warning"), "{said}");
}

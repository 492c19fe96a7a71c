//! Valid manifests in forms that few people write.

use super::tests::fine;

const NODE: &str = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#;
const BUDGET: &str = r#"{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}"#;

#[test]
fn json_objects_need_nothing_between_them() {
    for between in ["", "\n", " \n\n", "\n---\n"] {
        let (_, cluster) = fine(&format!("{NODE}{between}{BUDGET}\n"));
        assert_eq!((cluster.nodes.len(), cluster.disruption_budgets().len()), (1, 1), "{between:?}");
    }
}

#[test]
fn a_fault_in_a_later_object_is_at_its_place() {
    let faulty = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m"}, "spec": {"taints": 3}}"#;
    let (_, _, faults) = super::tests::read(&format!("{NODE}\n\n{faulty}\n"));
    assert!(faults.contains("test.yaml:3:"), "{faults}");
}

#[test]
fn texts_and_whole_numbers_may_be_marked_and_based() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {release: !!str 12}}\nspec:\n  priority: ";
    for (written, value) in
        [("0x10", 16), ("0o17", 15), ("017", 15), ("1_000", 1000), ("-0b11", -3), ("09", 9), ("+5", 5)]
    {
        let (_, cluster) = fine(&format!("{pod}{written}\n  containers: [{{name: c}}]\n"));
        assert_eq!(cluster.pods[0].pod.spec.priority, Some(value), "{written}");
        assert_eq!(cluster.pods[0].pod.metadata.labels["release"].as_ref(), "12");
    }
}

#[test]
fn a_job_set_may_have_no_jobs() {
    fine("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: {}\n");
}

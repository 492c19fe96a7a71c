//! Jobs whose status says what they have done, and how Jobs end together. The expected values follow from the reference of `JobStatus` in the API
//! `batch/v1`, and from `manageJob` in `pkg/controller/job/job_controller.go`.

use super::tests::{fine, read};

/// The indexes of the pods that a Job with this spec and status makes, and its failures.
fn made(spec: &str, status: &str) -> (Vec<u32>, u32) {
    let template = "template: {spec: {restartPolicy: Never, containers: [{name: c}]}}";
    let job = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {{{spec}, {template}}}\nstatus: {{{status}}}\n"
    );
    let (_, cluster) = fine(&job);
    let Some(controller) = cluster.controllers.first() else { return (Vec::new(), 0) };
    let set = &controller.sets[0];
    (set.numbers.clone(), set.of_job.as_ref().map_or(0, |job| job.failed))
}

#[test]
fn indexes_that_have_completed_are_left_out() {
    let spec = "completionMode: Indexed, completions: 8, parallelism: 2";
    for (status, left) in [
        ("succeeded: 4, completedIndexes: '1,3-5', failed: 2", vec![0, 2, 6, 7]),
        ("succeeded: 3, completedIndexes: 5-7", vec![0, 1, 2, 3, 4]),
        ("succeeded: 3", vec![3, 4, 5, 6, 7]),
        ("succeeded: 8, completedIndexes: 0-7", vec![]),
        ("succeeded: 2, completedIndexes: '0,2', failedIndexes: '1,3'", vec![4, 5, 6, 7]),
        ("failedIndexes: '1'", vec![0, 2, 3, 4, 5, 6, 7]),
        ("succeeded: 2, conditions: [{type: FailureTarget, status: 'True'}]", vec![]),
        ("succeeded: 3, completedIndexes: '4-5,0'", vec![1, 2, 3, 6, 7]),
    ] {
        assert_eq!(made(spec, status).0, left, "{status}");
    }
    assert_eq!(made(spec, "succeeded: 4, completedIndexes: '1,3-5', failed: 2").1, 2);
}

#[test]
fn a_job_without_completions_makes_no_more_pods_once_one_has_succeeded() {
    assert_eq!(made("parallelism: 3", "failed: 1"), (vec![0, 1, 2], 1));
    assert_eq!(made("parallelism: 3", "succeeded: 1"), (vec![], 0));
}

#[test]
fn a_job_set_fails_with_its_first_job_unless_it_starts_again() {
    for (policies, status, restarts, warned) in [
        ("", "", (0, false), ""),
        ("failurePolicy: {maxRestarts: 0}, successPolicy: {operator: All},", "", (0, false), ""),
        ("failurePolicy: {maxRestarts: 3, restartStrategy: Recreate},", "", (3, false), ""),
        ("failurePolicy: {maxRestarts: 3, restartStrategy: BlockingRecreate},", "restarts: 1", (2, true), ""),
        ("failurePolicy: {maxRestarts: 3},", "restarts: 9, restartsCountTowardsMax: 2", (1, false), ""),
        ("failurePolicy: {maxRestarts: 3},", "restarts: 4", (0, false), ""),
        ("failurePolicy: {maxRestarts: 1, restartStrategy: InPlaceRestart},", "", (1, false), "are made again"),
        ("successPolicy: {operator: Any},", "", (0, false), "its other Jobs go on after the first succeeds"),
        ("failurePolicy: {rules: [{action: FailJobSet}]},", "", (0, false), "JobSet spec.failurePolicy.rules"),
        (
            "successPolicy: {targetReplicatedJobs: [driver]},",
            "",
            (0, false),
            "JobSet spec.successPolicy.targetReplicatedJobs",
        ),
    ] {
        let template = "template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}";
        let text = format!(
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: s}}\nspec: {{{policies} replicatedJobs: \
             [{{name: driver, {template}}}]}}\nstatus: {{{status}}}\n"
        );
        let (manifests, cluster, mut said) = read(&text);
        said.push_str(&manifests.unused.notes().join("\n"));
        let of_job = cluster.controllers[0].sets[0].of_job.as_ref().expect("a Job");
        assert_eq!(of_job.set.as_deref(), Some("default/s"), "{policies}");
        assert_eq!((of_job.restarts, of_job.waits_for_set), restarts, "{policies} {status}");
        let is_warning = warned.contains(" made again") || warned.contains(" go on ");
        assert_eq!((said.contains("warning: "), said.contains(warned)), (is_warning, true), "{policies} {said}");
    }
}

//! Kubernetes manifests, as the commands read them.

use crate::cli::{dryrack, stderr, stdout, written};
use assert_cmd::assert::OutputAssertExt;

trials! {
    Nothing: [
        every_command_names_the_objects_that_are_not_followed,
        an_annotation_without_meaning_is_told_once,
        simulate_warns_of_the_added_workload,
        annotations_are_read_in_each_template,
    ]
}

const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 8}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: q}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: quiet}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
";

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {kueue.x-k8s.io/queue-name: team}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, resources: {requests: {cpu: 1}}}]}}}
";

const SCENARIO: &str = "
scenario: A node runs a job
files: [cluster.yaml]
jobs: [{name: one, cpus: 1}]
until: 1h
expect: [{name: runs, job: one, is: running, by: 1m}]
";

fn every_command_names_the_objects_that_are_not_followed() {
    let folder = written(&[("cluster.yaml", CLUSTER), ("scenario.yaml", SCENARIO), ("job.yaml", JOB)]);
    let wanted = "1 object is not followed, so decisions can differ: CronJob nightly (cluster.yaml:27)";
    for args in [
        &["check", "scenario.yaml"][..],
        &["run", "scenario.yaml"],
        &["test", "scenario.yaml"],
        &["simulate", "cluster.yaml", "--with", "job.yaml"],
    ] {
        let said = stderr(folder.path(), args, 0);
        assert_eq!(said.matches(wanted).count(), 1, "{args:?}: {said}");
    }
    let output = dryrack(folder.path(), &["import", "kubernetes", "cluster.yaml", "-o", "out"]).assert().code(0);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert_eq!(said.matches(wanted).count(), 1, "{said}");
}

fn an_annotation_without_meaning_is_told_once() {
    let cluster = CLUSTER.replace("{name: n}", "{name: n, annotations: {note: a}}");
    let folder = written(&[("cluster.yaml", &cluster), ("scenario.yaml", SCENARIO)]);
    let said = stderr(folder.path(), &["check", "scenario.yaml"], 0);
    assert_eq!(said.matches("Node metadata.annotations (1)").count(), 1, "{said}");
}

fn simulate_warns_of_the_added_workload() {
    let volume = "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], containers";
    let folder = written(&[("cluster.yaml", CLUSTER), ("job.yaml", &JOB.replace("containers", volume))]);
    let said = stderr(folder.path(), &["simulate", "cluster.yaml", "--with", "job.yaml"], 0);
    let wanted = "not followed, so decisions can differ: Job spec.template.spec.volumes.persistentVolumeClaim (1)";
    assert_eq!(said.matches(wanted).count(), 1, "{said}");
    assert_eq!(said.matches("CronJob nightly (cluster.yaml:27)").count(), 1, "{said}");
}

/// Each pod runs for as long as the template that is closest to it says. The deadline of `late` ends it after five minutes.
fn annotations_are_read_in_each_template() {
    let pods = |more: &str| {
        format!("spec: {{{more}restartPolicy: Never, containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}")
    };
    let of = |time: &str| format!("metadata: {{annotations: {{dryrack/duration: {time}}}}}");
    let text = format!(
        "scenario: Templates of templates\nnodes: [{{name: n, cpus: 16, ram: 64GiB}}]\nmanifests:\n\
         - apiVersion: jobset.x-k8s.io/v1alpha2\n  kind: JobSet\n  metadata: {{name: js, annotations: {{dryrack/duration: 40m}}}}\n  \
         spec:\n    replicatedJobs:\n    \
         - {{name: own, template: {{{}, spec: {{template: {{{}, {}}}}}}}}}\n    \
         - {{name: job, template: {{{}, spec: {{template: {{{}}}}}}}}}\n    \
         - {{name: set, template: {{spec: {{template: {{{}}}}}}}}}\n    \
         - {{name: late, template: {{spec: {{activeDeadlineSeconds: 2700, template: {{{}, {}}}}}}}}}\n\
         - apiVersion: leaderworkerset.x-k8s.io/v1\n  kind: LeaderWorkerSet\n  metadata: {{name: lws}}\n  \
         spec: {{leaderWorkerTemplate: {{size: 2, workerTemplate: {{{}, spec: {{containers: [{{name: c, resources: \
         {{requests: {{cpu: 1}}}}}}]}}}}}}}}\nuntil: 1h\nexpect:\n  \
         - {{job: js-own-0, is: completed, at: 10m}}\n  - {{job: js-job-0, is: completed, at: 20m}}\n  \
         - {{job: js-set-0, is: completed, at: 40m}}\n  - {{job: js-late-0, is: expired, at: 45m}}\n  \
         - {{job: js-job-0, is: running, at: 19m}}\n",
        of("20m"),
        of("10m"),
        pods(""),
        of("20m"),
        pods(""),
        pods(""),
        of("50m"),
        pods(""),
        of("30m"),
    );
    let dir = written(&[("s.yaml", &text)]);
    let said = stdout(dir.path(), &["test", "s.yaml"], 0);
    assert!(said.contains("1 passed"), "{said}");
}

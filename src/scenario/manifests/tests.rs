//! What becomes of manifests in a scenario.

use std::path::Path;

use dryrack_fleet::NodeShape;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Restart, RunLimit};

use crate::{Loaded, Options, load_text};

fn loaded(text: &str, folder: &Path) -> Loaded {
    let loaded = load_text("test.yaml", text, folder, &Options::default());
    loaded.unwrap_or_else(|faults| panic!("{faults}"))
}

const NODE: &str = "
  - {apiVersion: v1, kind: Node, metadata: {name: n, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3,
     nvidia.com/gpu.memory: \"81559\", kubernetes.io/arch: arm64}},
     status: {allocatable: {cpu: 7910m, memory: 30Gi, nvidia.com/gpu: 2, nvidia.com/mig-1g.10gb: 3}}}";

fn of_objects(objects: &str) -> Loaded {
    loaded(&format!("scenario: Objects\nuntil: 1h\nmanifests:{NODE}\n{objects}"), Path::new(""))
}

#[test]
fn a_node_keeps_its_amounts_and_its_gpus_are_found_in_the_catalog() {
    let loaded = of_objects("");
    let shape: &NodeShape = &loaded.rehearsal.nodes[0].spec.shape;
    assert_eq!((shape.cpu.get(), shape.ram.get()), (7910, 30 << 30));
    let gpus: Vec<(&str, u64)> = shape.gpus.iter().map(|gpu| (&*gpu.model, gpu.memory.get() >> 20)).collect();
    assert_eq!(gpus, [("h100-80g", 81_559); 2]);
    let stated = shape.kubernetes.as_ref().expect("it is a node of Kubernetes");
    assert_eq!(stated.status.allocatable["nvidia.com/mig-1g.10gb"].value(), 3);
}

const POD: &str =
    "spec: {containers: [{name: m, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}]}";

/// The pod of a Job.
fn ending() -> String {
    POD.replace("{containers", "{restartPolicy: Never, containers")
}

#[test]
fn controllers_are_jobs_and_their_pods_are_replicas() {
    let loaded = of_objects(&format!(
        "
  - {{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 3, template: {{{POD}}}}}}}
  - {{apiVersion: batch/v1, kind: Job, metadata: {{name: train, annotations: {{dryrack/duration: 5m, dryrack/at: 1m}}}},
     spec: {{completions: 4, parallelism: 2, backoffLimit: 1, activeDeadlineSeconds: 600, template: {{{ending}}}}}}}
  - {{apiVersion: batch/v1, kind: Job, metadata: {{name: one}}, spec: {{template: {{{ending}}}}}}}
  - {{apiVersion: batch/v1, kind: Job, metadata: {{name: same}}, spec: {{template: {{{ending}}}}}}}
  - {{apiVersion: batch/v1, kind: Job, metadata: {{name: same, namespace: other}}, spec: {{template: {{{ending}}}}}}}
  - {{apiVersion: batch/v1, kind: Job, metadata: {{name: each, annotations: {{dryrack/at: 2m}}}}, spec: {{completionMode: Indexed,
     completions: 2, parallelism: 2, backoffLimitPerIndex: 3, template: {{{ending}}}}}}}
  - {{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: agent}}, spec: {{template: {{spec: {{containers: [{{name: m}}]}}}}}}}}
",
        ending = ending()
    ));
    let jobs = &loaded.rehearsal.arrivals;
    let names: Vec<&str> = jobs.iter().map(|job| &*job.spec.name).collect();
    let expected = ["web", "one", "default/same", "other/same", "agent-n", "train-0", "train-1", "train-2", "train-3"];
    assert_eq!((&names[..9], &names[9..]), (&expected[..], &["each-0", "each-1"][..]));
    let (web, train) = (&jobs[0].spec, &jobs[5].spec);
    assert_eq!(
        (web.replicas, web.restart, web.retry.as_ref().map(|retry| retry.limit)),
        (3, Restart::Always, Some(None))
    );
    assert_eq!(web.demand.gpus().map(|gpus| gpus.count), Some(1));
    let limit = Some(Box::new(RunLimit::ArrayTasks { array: "default/train".into(), most: 2 }));
    assert_eq!((&train.run_limit, train.retry.as_ref().map(|retry| retry.limit)), (&limit, Some(Some(1))));
    // The pods of the Job are jobs here, so they share its deadline.
    let deadline = train.shared_deadline.as_deref().map(|deadline| (&*deadline.group, deadline.after));
    assert_eq!((train.time_limit, deadline), (None, Some(("default/train", SimDuration::from_secs(600)))));
    assert_eq!(train.shared_retry.as_deref().map(|retry| &*retry.group), Some("default/train"));
    // With a limit for each index, they do not share their retries.
    let each = &jobs[9].spec;
    assert_eq!((each.retry.as_ref().map(|retry| retry.limit), &each.shared_retry), (Some(Some(3)), &None));
    assert_eq!(jobs[5].at, SimTime::from_secs(60));
    assert_eq!((jobs[5].behavior.run, jobs[0].behavior.run), (Some(SimDuration::from_secs(300)), None));
}

/// The run begins at the latest time of the dump. A pod that started ten minutes before it has used ten minutes.
#[test]
fn a_pod_on_a_node_has_its_age() {
    let loaded = of_objects(&format!(
        "
  - {{apiVersion: v1, kind: Pod, metadata: {{name: old, annotations: {{dryrack/duration: 1h}}}}, {},
     status: {{phase: Running, startTime: \"2026-01-01T00:50:00Z\"}}}}
  - {{apiVersion: v1, kind: Pod, metadata: {{name: new, creationTimestamp: \"2026-01-01T01:00:00Z\"}}, {POD}}}
",
        POD.replace("spec: {", "spec: {nodeName: n, ")
    ));
    let old = loaded.rehearsal.arrivals.iter().find(|arrival| arrival.spec.name.ends_with("old")).expect("the pod");
    assert_eq!(old.behavior.run, Some(SimDuration::from_secs(50 * 60)));
    let pod = old.spec.pod.as_ref().expect("it is a pod");
    assert_eq!(pod.status.start_time, Some(dryrack_objects::Seconds(-600)));
}

/// A chart and a kustomization are no objects of the API. A folder may hold them, and counts them.
#[test]
fn files_of_helm_and_kustomize_in_a_folder_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 1, pods: 9}}\n";
    for (name, text) in [
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("values.yaml", "replicas: 3\n"),
        (
            "kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [n.yaml]\n",
        ),
        ("n.yaml", node),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let found = |files: &str| {
        let (text, place) = (format!("scenario: A folder\nuntil: 1h\nfiles: [{files}]\n"), folder.path());
        let options = Options { tells_unused: true, ..Options::default() };
        match crate::load_text("test.yaml", &text, place, &options) {
            Ok(loaded) => loaded.warnings.to_string(),
            Err(faults) => faults.to_string(),
        }
    };
    for files in [".", "\"*.yaml\""] {
        let told = found(files);
        assert!(told.contains("kinds without meaning in a rehearsal: files that are not manifests (3)"), "{told}");
        assert!(!told.contains("error: "), "{told}");
    }
    // One that is named must be a manifest.
    assert!(found("Chart.yaml").contains("error: the object lacks `kind`"));
}

#[test]
fn files_say_when_pods_arrive_and_a_log_needs_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = |name: &str, created: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, creationTimestamp: \"{created}\"}}\n\
             spec: {{template: {{{}}}}}\n",
            ending()
        )
    };
    let text = format!("{}---\n{}", job("a", "2026-01-01T00:00:05Z"), job("b", "2026-01-01T00:02:05Z"));
    std::fs::write(folder.path().join("jobs.yaml"), text).expect("written");
    let text = format!(
        "scenario: Files\nuntil: 1h\nfiles: [{{path: \"*.yaml\", at: created, duration: 3m}}]\nmanifests:{NODE}\n"
    );
    let first = loaded(&text, folder.path());
    let times: Vec<u64> = first.rehearsal.arrivals.iter().map(|job| job.at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [0, 120]);
    assert_eq!(first.rehearsal.arrivals[1].behavior.run, Some(SimDuration::from_secs(180)));
    let again = loaded(&first.rehearsal.source, Path::new("/nowhere"));
    let jobs = |loaded: &Loaded| format!("{:?} {:?}", loaded.rehearsal.arrivals, loaded.rehearsal.nodes);
    assert_eq!(jobs(&first), jobs(&again));
}

#[test]
fn a_fault_in_a_file_has_its_place_in_that_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("pod.yaml"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: m}]\n  toleration: []\n",
    )
    .expect("written");
    let text = format!("scenario: Faulty\nfiles: [pod.yaml, none.yaml]\nmanifests:{NODE}\n");
    let faults = load_text("test.yaml", &text, folder.path(), &Options::default()).expect_err("it has faults");
    let faults = faults.to_string();
    let wanted = ["pod.yaml:6:3", "did you mean `tolerations`?", "test.yaml:2:19", "none.yaml`: no such file"];
    wanted.iter().for_each(|wanted| assert!(faults.contains(wanted), "{wanted}: {faults}"));
}

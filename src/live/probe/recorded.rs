//! Tests on recordings of servers and tools. They are in `tests/data/probe`, which also gives the source of each.

use serde_json::{Value, json};

use super::snapshot::{NodeSnapshot, Snapshot};
use super::{completed, dstack, gpustack, host_list, kubernetes, slurm};
use crate::clock::{Clock, Stamp};
use dryrack_catalog::{CpuArch, Os, Vendor};
use dryrack_fleet::NodeState;
use dryrack_units::{Bytes, GpuShare, MilliCpu, Permille};

fn now() -> Stamp {
    Clock::start().now()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("a recording is JSON")
}

fn held(node: &NodeSnapshot) -> Vec<(bool, Option<&str>)> {
    node.gpus.iter().map(|gpu| (gpu.held == GpuShare::WHOLE, gpu.holder.as_deref())).collect()
}

fn slurm_snapshot() -> Snapshot {
    let sinfo = read(include_str!("../../../tests/data/probe/slurm-22.05-sinfo.json"));
    let squeue = read(include_str!("../../../tests/data/probe/slurm-22.05-squeue.json"));
    slurm::read(&sinfo, &squeue, now()).expect("it is read")
}

#[test]
fn slurm_says_which_gpus_its_jobs_have() {
    let snapshot = slurm_snapshot();
    assert_eq!(snapshot.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n1", "n2", "n3", "n4"]);
    let [n1, n2, n3, _] = &snapshot.nodes[..] else { panic!("four nodes") };
    assert_eq!(held(n1), [(true, Some("1 whole")), (true, Some("1 whole"))]);
    assert_eq!(held(n2), [(true, Some("2 single")), (false, None)]);
    assert_eq!(held(n3), [(false, None), (false, None)]);
    assert_eq!((n1.cpu.clone(), n1.cpu_used.clone()), (Ok(MilliCpu::from_cores(8)), Ok(MilliCpu::from_cores(2))));
    assert_eq!((n1.ram.clone(), n1.ram_used.clone()), (Ok(Bytes::from_mib(4000)), Ok(Bytes::ZERO)));
    assert_eq!((n1.os, n1.arch, n1.state), (Some(Os::Linux), Some(CpuArch::X86_64), NodeState::Ready));
    assert!(snapshot.notes.is_empty());
    // Slurm was not configured with the type and memory of the GPUs.
    assert_eq!(n1.gpus[0].memory.as_ref().unwrap_err().name(), "unsaid");
}

#[test]
fn what_has_ended_is_in_the_completion_file_but_for_half_a_line() {
    let text = include_str!("../../../tests/data/probe/slurm-22.05-jobcomp.txt");
    let jobs = completed(text, "jobcomp.txt").expect("it is read");
    let gang = jobs.iter().find(|job| job.name == "gang").expect("it has ended");
    assert_eq!((gang.id, gang.hosts.clone()), (3, host_list("n1,n2,n3,n4")));
    assert_eq!((gang.start.as_str(), gang.end.as_str()), ("2026-11-21T20:39:12", "2026-11-21T20:39:15"));
    assert_eq!((gang.state.as_str(), gang.time_limit.as_str()), ("COMPLETED", "5"));
    let cut = &text[..text.len() - 20];
    assert_eq!(completed(cut, "jobcomp.txt").expect("the rest is read").len(), jobs.len() - 1);
    assert_eq!(completed("JobId=x\n", "jobcomp.txt").unwrap_err().name(), "malformed");
}

/// The forms follow Slurm's documentation of `gres` and of host lists, and its releases after 22.05.
#[test]
fn other_forms_of_slurm_are_read() {
    assert_eq!(host_list("a[1-3,07],login"), ["a1", "a2", "a3", "a07", "login"]);
    assert_eq!(host_list("a[18446744073709551615]"), ["a18446744073709551615"]);
    assert_eq!(host_list("a[1-99999999,1-99999999],b[1-2]").len(), 100_000);
    let node = json!({"name": "a1", "state": ["MIXED", "DRAIN"], "cpus": 64, "alloc_cpus": 3,
        "real_memory": {"set": true, "infinite": false, "number": 1024}, "alloc_memory": 512, "architecture": "x86_64",
        "gres": "gpu:a100:2(S:0-1),gpu:l4:1(S:0),craynetwork:4", "gres_used": "gpu:a100:1(IDX:1),gpu:l4:0(IDX:N/A)"});
    let job = json!({"job_id": 7, "job_state": ["RUNNING"], "nodes": "a1", "gres_detail": ["gpu:a100:1(IDX:1)"]});
    let snapshot = slurm::read(&json!({"nodes": [node]}), &json!({"jobs": [job]}), now()).expect("it is read");
    let node = &snapshot.nodes[0];
    assert_eq!(held(node), [(false, None), (true, Some("7")), (false, None)]);
    assert_eq!(node.gpus[2].name.as_deref(), Ok("l4"));
    assert_eq!((node.ram.clone(), node.state), (Ok(Bytes::from_gib(1)), NodeState::Maintenance));
}

/// The count is the number of GPUs in use. A count of 0 means none, for every way to write the type. GPUs in use of one
/// type must not occupy GPUs of another type.
#[test]
fn an_idle_gpu_of_slurm_is_nobodys() {
    let rows: [(&str, &str, &[bool]); 7] = [
        ("gpu:2", "gpu:0", &[false, false]),
        ("gpu:2", "gpu:(null):0(IDX:N/A)", &[false, false]),
        ("gpu:2", "gpu:(null):1(IDX:1)", &[true, false]),
        ("gpu:(null):2(S:0-1)", "gpu:(null):2(IDX:0-1)", &[true, true]),
        ("gpu:a100:2(S:0)", "gpu:a100:0(IDX:N/A)", &[false, false]),
        ("gpu:a100:2,gpu:l4:2", "gpu:a100:0(IDX:N/A),gpu:l4:1(IDX:2)", &[false, false, true, false]),
        ("gpu:a100:1", "", &[false]),
    ];
    for (gres, used, expected) in rows {
        let node = json!({"name": "a1", "state": "IDLE", "gres": gres, "gres_used": used});
        let snapshot = slurm::read(&json!({"nodes": [node]}), &json!({"jobs": []}), now()).expect("it is read");
        let held: Vec<bool> = held(&snapshot.nodes[0]).into_iter().map(|(is_held, _)| is_held).collect();
        assert_eq!(held, expected, "{gres}, of which {used}");
    }
}

#[test]
fn gpustack_says_workers_and_what_is_set_aside_on_them() {
    let page = read(include_str!("../../../tests/data/probe/gpustack-workers.json"));
    let snapshot = gpustack::read(&page, "GPUStack", now()).expect("it is read");
    let [pc, mac] = &snapshot.nodes[..] else { panic!("two workers") };
    assert_eq!((pc.os, pc.cpu.as_ref().unwrap_err().name()), (Some(Os::Linux), "unsaid"));
    assert_eq!(pc.gpus[1].memory, Ok(Bytes::new(17_171_480_576)));
    assert_eq!(pc.gpus[1].memory_used, Ok(Bytes::new(619_380_736)));
    assert_eq!(
        (pc.set_aside, mac.set_aside),
        ((Bytes::from_gib(1), Bytes::from_gib(1)), (Bytes::from_gib(2), Bytes::from_gib(1)))
    );
    assert_eq!((mac.os, mac.arch), (Some(Os::Darwin), Some(CpuArch::Aarch64)));
    assert_eq!(mac.cpu, Ok(MilliCpu::from_cores(24)));
    let gpu = &mac.gpus[0];
    assert_eq!((gpu.vendor, gpu.unified, gpu.utilization.clone()), (Some(Vendor::Apple), true, Ok(Permille::ZERO)));
    assert_eq!(
        (gpu.memory.clone(), gpu.memory_used.clone()),
        (Ok(Bytes::new(200_789_721_088)), Ok(Bytes::new(2_512_488_436)))
    );
    assert_eq!(mac.ram_used, Ok(Bytes::new(92_699_000_832)));
}

#[test]
fn dstack_says_instances_and_the_usage_of_jobs_that_are_alone() {
    let fleets = read(include_str!("../../../tests/data/probe/dstack-0.22.5-fleets.json"));
    let runs = read(include_str!("../../../tests/data/probe/dstack-0.22.5-runs.json"));
    let metrics = read(include_str!("../../../tests/data/probe/dstack-0.22.5-metrics-train.json"));
    let (mut snapshot, hosts) = dstack::read(&fleets, "dstack", now()).expect("it is read");
    assert_eq!(hosts, ["h0", "h1"]);
    let jobs = dstack::jobs(&runs, "dstack").expect("it is read");
    let mut where_it_runs: Vec<(&str, &str)> = jobs.iter().map(|job| (job.run.as_str(), job.host.as_str())).collect();
    where_it_runs.sort_unstable();
    assert_eq!(where_it_runs, [("chat", "h1"), ("train", "h0")]);
    let node = &mut snapshot.nodes[0];
    assert_eq!((node.name.as_str(), node.cpu.clone()), ("lab-0", Ok(MilliCpu::from_cores(16))));
    assert_eq!(node.cpu_used, node.cpu);
    assert_eq!(held(node), [(true, None), (true, None)]);
    dstack::apply_usage(&metrics, node, "dstack").expect("it is read");
    // The values at the last of twelve points: 97 - 11 for the first GPU, 3 for the second, 5 GiB each.
    let found: Vec<_> = node.gpus.iter().map(|gpu| gpu.utilization.clone()).collect();
    assert_eq!(found, [Ok(Permille::new(860)), Ok(Permille::new(30))]);
    assert_eq!(node.gpus[1].memory_used, Ok(Bytes::from_gib(5)));
}

/// The pod is the example of kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus with NVIDIA's resource, on this node.
#[test]
fn kubernetes_says_nodes_and_what_pods_request_of_them() {
    let nodes = read(include_str!("../../../tests/data/probe/kubernetes-nodes.json"));
    let pod = |phase: &str| {
        json!({"metadata": {"name": "example-vector-add", "namespace": "default"}, "status": {"phase": phase},
            "spec": {"nodeName": "nori", "restartPolicy": "OnFailure", "containers": [
                {"name": "example-vector-add", "resources": {"limits": {"nvidia.com/gpu": "1"},
                 "requests": {"cpu": "100m", "memory": "64Mi"}}}]}})
    };
    let snapshot = |pods: Value| kubernetes::read(&nodes, &json!({"items": pods}), now()).expect("it is read");
    let busy = snapshot(json!([pod("Running")]));
    let node = &busy.nodes[0];
    assert_eq!((node.name.as_str(), node.state), ("nori", NodeState::Ready));
    assert_eq!((node.cpu.clone(), node.ram.clone()), (Ok(MilliCpu::from_cores(2)), Ok(Bytes::new(16_367_668 * 1024))));
    assert_eq!((node.cpu_used.clone(), node.ram_used.clone()), (Ok(MilliCpu::new(100)), Ok(Bytes::from_mib(64))));
    assert_eq!(held(node), [(true, Some("default/example-vector-add"))]);
    assert_eq!(
        (node.gpus[0].name.as_deref(), node.gpus[0].memory.clone()),
        (Ok("NVIDIA-A16-4Q"), Ok(Bytes::from_gib(4)))
    );
    assert_eq!(node.driver.as_deref(), Some("550.90.07"));
    assert_eq!(held(&snapshot(json!([pod("Succeeded")])).nodes[0]), [(false, None)]);
    let two = snapshot(json!([pod("Running"), pod("Pending")]));
    assert_eq!(two.notes, ["default/example-vector-add holds 1 more of nvidia.com/gpu than nori has"]);
}

/// The forms and values follow the Kubernetes documentation of quantities.
#[test]
fn quantities_are_read_as_kubernetes_writes_them() {
    let read = |text: &str| kubernetes::quantity(&json!({"q": text}), "q", "a node");
    for (text, wanted) in
        [("500m", 0.5), ("128974848", 128_974_848.0), ("129e6", 129e6), ("129M", 129e6), ("123Mi", 128_974_848.0)]
    {
        assert_eq!(read(text), Ok(wanted), "{text}");
    }
    for (text, wanted) in
        [("", "malformed"), ("Mi", "malformed"), ("inf", "malformed"), ("1 Gi", "malformed"), ("1e999", "infinite")]
    {
        assert_eq!(read(text).map(|_| ()).unwrap_err().name(), wanted, "{text}");
    }
}

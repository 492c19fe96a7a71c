//! Changes that users make to running jobs: converts `changes:` to a list for the engine, in order of time.

use super::jobs::refuse_many_replicas;
use super::kueue;
use super::world::World;
use dryrack_ids::JobId;
use dryrack_units::SimTime;
use dryrack_workload::Arrival;
use dryrack_yaml::{Fields, Report};

/// Reads `changes:`, such as `{at: 10m, job: web, replicas: 2}`.
pub(super) fn read(
    file: &Fields<'_>,
    world: &mut World,
    arrivals: &[Arrival],
    report: &mut Report,
) -> Vec<(SimTime, JobId, u32)> {
    let mut scalings = Vec::new();
    // Changes of queues are lowered together with the queues.
    for tree in file.list("changes", report).iter().filter(|tree| !kueue::is_of_queue(tree)) {
        let names_job = tree.get("job").is_some();
        let of_queues = if names_job { &[][..] } else { &kueue::CHANGED };
        let known = [&["at", "job", "replicas"], of_queues].concat();
        let Some(fields) = Fields::read(tree, "a change", &known, report) else { continue };
        if !names_job {
            let help = "add `job: chat`, or name a queue with `cluster_queue:`, `cohort:` or `local_queue:`";
            report.error_with_help(fields.place(), "a change names neither a job nor a queue", help);
            continue;
        }
        for (key, example) in [("at", "10m"), ("job", "chat"), ("replicas", "2")] {
            fields.require(key, example, report);
        }
        let at = fields.value::<SimTime>("at", report);
        let replicas = fields.value::<u32>("replicas", report);
        if replicas == Some(0) {
            let help = "write 1 or more, or end the job with `cancel_at`";
            report.error_with_help(fields.key_span("replicas"), "a job must keep at least one replica", help);
            continue;
        }
        if replicas.is_some_and(|replicas| refuse_many_replicas(replicas, &fields, report)) {
            continue;
        }
        for (typed, span) in fields.items("job", "the name of a job", report) {
            let jobs = world.jobs(typed, span, report);
            let (Some(at), Some(replicas)) = (at, replicas) else { continue };
            for job in jobs {
                if arrivals[job.index()].spec.queued.is_some() {
                    let message = "a job in a queue of Kueue keeps its number of pods";
                    report.error_with_help(span, message, "submit another job instead");
                    break;
                }
                let comes = arrivals[job.index()].at;
                if at < comes {
                    let name = &arrivals[job.index()].spec.name;
                    let message = format!("`{name}` is changed at {at}, before its submission at {comes}");
                    report.error_with_help(fields.key_span("at"), message, format!("write {comes} or later"));
                    break;
                }
                let most = &mut world.replicas[job.index()];
                *most = (*most).max(replicas);
                scalings.push((at, job, replicas));
            }
        }
    }
    // The sort is stable: changes at the same instant keep the order of the file.
    scalings.sort_by_key(|(at, ..)| *at);
    scalings
}

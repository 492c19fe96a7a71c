//! What a front end would offer at a moment: the run up to then, and the filters' answers for one job's demand.

use std::sync::Arc;

use super::rehearsal::Rehearsal;
use super::replay::Replay;
use super::run::{RunOptions, run};
use super::swarm::Records;
use crate::event::{Input, Said};
use crate::fleet::Fleet;
use crate::ids::JobId;
use crate::scheduler::{Selectable, select};
use crate::units::SimTime;

/// The fleet at a moment, and what of it can be picked for a job.
pub struct Selection {
    pub at: SimTime,
    pub fleet: Fleet,
    /// In order of node ids.
    pub nodes: Vec<Selectable>,
}

/// What can be picked for this job after everything of the instant `at` has happened; without `at`, in the moment in
/// which it is submitted. What the job itself holds by then is taken.
pub fn selection(rehearsal: &Rehearsal, job: JobId, at: Option<SimTime>) -> Selection {
    let spec = &rehearsal.arrivals[job.index()].spec;
    let moment = at.unwrap_or(rehearsal.arrivals[job.index()].at);
    let part = Rehearsal { until: Some(moment), ..rehearsal.clone() };
    let mut records = Records::default();
    run(&part, RunOptions::default(), &mut [&mut records]);
    let mut replay = Replay::new(Arc::clone(&rehearsal.profile), rehearsal.seed);
    for record in &records.0 {
        let is_its_own = matches!(&record.said, Said::Input(Input::Submit { job: submitted, .. }) if *submitted == job);
        if at.is_none() && is_its_own {
            break;
        }
        replay.take(record).expect("what was just recorded replays");
    }
    let fleet = replay.control.fleet().clone();
    let nodes = select(&rehearsal.profile.scheduler, &spec.demand, &fleet);
    Selection { at: moment, fleet, nodes }
}

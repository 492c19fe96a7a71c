//! The flow of runs: jobs are runs of nodes, and loops look at their records in their own time.
//!
//! Each node of a run is a replica in the control plane's store, with a claim and a lifecycle of its own. The run is
//! a record beside them. A fact about a node is heard at once, and noticed when its record is looked at. Four loops
//! look at records: submitted nodes, running nodes, terminating nodes, runs. A loop first lists the records that are
//! due and clears their flags, then looks at one after the other. What becomes due meanwhile waits for the next
//! round. Under `loops: ideal`, the same looks are taken in the instant in which something changes, until nothing
//! changes any more.
//!
//! The rules were read in dstack 0.22.5 and are checked against recorded sequences of it. States and edges are in
//! [`dryrack_lifecycle`].

mod clock;
mod facts;
mod options;
mod rows;
mod running;
mod runs;
mod services;
mod submitted;
mod terminating;
mod view;

pub use options::{
    Assignment, BeginRule, GangRule, Loops, NoCapacityRule, Pause, PlacelessRule, PolledLoops, PrepareRule,
    ReleaseRule, ReplicaRetryRule, Rounds, RunningLoop, RunsLoop, RunsOptions, SubmittedLoop, TerminatingLoop,
    UncountedRule,
};
pub(super) use rows::Polled;
pub use view::{MemberStanding, RunStanding};

use std::sync::Arc;

use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::{Due, Flow, Held};
use crate::polled::submitted::part;
use clock::Look;
use dryrack_event::{Lifecycle, Outcome, Phase, Reason};
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_lifecycle::{MemberState, WholeState, is_member_edge, is_whole_edge};
use dryrack_scheduler::Seats;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Demand;

impl Flow for Polled {
    /// Nodes of runs wait in their records.
    fn queue_up(&mut self, _core: &mut Core, _index: ReplicaIndex) {
        panic!("a loop looks for what waits");
    }

    fn settle(&mut self, core: &mut Core) {
        self.at(core).look_at_runs(core);
    }

    fn next_due(&mut self, core: &mut Core) -> Option<Due> {
        self.next_look(core)
    }

    /// What is kept twice agrees, and records that wait can be found.
    fn check(&self, core: &Core) {
        self.assert_runs(core);
    }

    fn check_nothing_waits_in_vain(&self, core: &Core) {
        self.assert_no_run_waits_in_vain(core);
    }

    fn submitted(&mut self, core: &mut Core, job: JobId, refused: Option<Held>) {
        self.at(core).submit_run(core, job, refused);
    }

    fn fact(&mut self, core: &mut Core, index: ReplicaIndex, run: RunId, fact: Lifecycle) {
        match core.replicas[index as usize].is_at(run) {
            true => self.at(core).hear(core, index, fact),
            false => core.late_fact(run, fact),
        }
    }

    fn cancelled(&mut self, core: &mut Core, job: JobId) {
        self.at(core).cancel_run(job);
    }

    fn scale(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        self.at(core).scale_run(core, job, wanted);
    }

    fn requests_counted(&mut self, core: &mut Core, job: JobId, requests: u64) {
        self.at(core).count_requests(core, job, requests);
    }

    fn stop(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        self.at(core).member_unwanted(core, index, outcome, because);
    }

    fn has_stopped(&self, index: ReplicaIndex) -> bool {
        self.members[index as usize].over
    }

    fn stayed_too_long(&mut self, core: &mut Core, index: ReplicaIndex, phase: Phase) {
        self.at(core).too_long(index, phase);
    }

    fn node_lost(&mut self, core: &mut Core, index: ReplicaIndex, _node: NodeId) {
        self.at(core).member_lost(index);
    }

    fn instance_is_up(&mut self, core: &mut Core, node: NodeId) {
        self.at(core).wake_on(core, node);
    }

    fn attempt_ended(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        _ending: (Outcome, Reason),
        _ran: SimDuration,
        _again: bool,
    ) {
        self.at(core).member_ended(core, index);
    }

    /// Old releases lose what is given back.
    fn leaks_claims(&self) -> bool {
        self.options.release == ReleaseRule::LastOfRound
    }

    fn waiting(&self, _core: &Core) -> Option<Vec<ReplicaIndex>> {
        None
    }

    fn part_of(&self, core: &Core, index: ReplicaIndex) -> Option<(Arc<Demand>, Seats)> {
        Some(part(core, index, self.siblings(index), self.places_whole()))
    }

    fn first_seats(&self, demand: &Demand) -> Seats {
        let one_by_one = !self.places_whole() && demand.requirements().is_some();
        if one_by_one { Seats::One { master: None } } else { Seats::All }
    }
}

impl Polled {
    /// Goes on to the time of the core.
    pub(crate) fn at(&mut self, core: &Core) -> &mut Polled {
        self.now = core.now;
        self
    }

    /// For a caller that steps this control plane through every look, in rounds of its own: no look is left out
    /// because nothing would come of it.
    pub(crate) fn look_in_rounds(&mut self) {
        self.in_rounds = true;
    }

    /// Takes all looks that are due.
    fn look_at_runs(&mut self, core: &mut Core) {
        self.unpark(core);
        let now = core.now;
        // With loops, a loop that comes by and finds nothing has still come by. Without loops, whatever has changed
        // is looked at again: each look changes something, or is the last one at its record.
        let enough = 1000 + 64 * (self.members.len() + self.runs.len());
        for rounds in 0.. {
            assert!(rounds < enough, "looks at runs go on for ever at {now}: {:?}", self.next_look(core));
            let mut looked = false;
            for look in Look::ALL {
                let of_all = self.in_rounds;
                if self.clocks[look as usize].comes_by(now, of_all) {
                    self.poll(core, look);
                    looked = true;
                }
            }
            if !looked || !self.is_ideal() {
                break;
            }
            self.unpark(core);
        }
        self.unpark(core);
    }

    fn next_look(&self, core: &Core) -> Option<(SimTime, &'static str)> {
        Look::ALL.into_iter().filter_map(|look| Some((self.clocks[look as usize].next(core.now)?, look.reason()))).min()
    }

    fn poll(&mut self, core: &mut Core, look: Look) {
        let now = core.now;
        let mut rows = self.clocks[look as usize].poll(now);
        match look {
            Look::Runs => rows.sort_by_key(|row| {
                let run = &self.runs[*row as usize];
                (run.processed, run.turn)
            }),
            Look::Submitted => rows.sort_by_key(|row| {
                let member = &self.members[*row as usize];
                (core.replicas[*row as usize].key.priority(), member.processed, member.turn, member.created)
            }),
            Look::Running | Look::Terminating => rows.sort_by_key(|row| {
                let member = &self.members[*row as usize];
                (member.processed, member.turn, member.created)
            }),
        }
        rows.truncate(self.clocks[look as usize].batch());
        for row in &rows {
            match look {
                Look::Runs => self.run(JobId::new(*row as usize)).flagged = false,
                Look::Submitted | Look::Running | Look::Terminating => self.member(*row).flagged = false,
            }
        }
        rows.reverse();
        self.rest = rows;
        while let Some(row) = self.rest.pop() {
            match look {
                Look::Runs => self.look_at_run(core, JobId::new(row as usize)),
                Look::Submitted => self.look_at_submitted(core, row),
                Look::Running => self.look_at_running(core, row),
                Look::Terminating => self.look_at_terminating(core, row),
            }
        }
    }

    /// Makes nodes that wait for capacity where they are due again, once the fleet has grown.
    fn unpark(&mut self, core: &mut Core) {
        let growth = core.fleet.growth();
        if self.growth != growth {
            self.growth = growth;
            let parked: Vec<ReplicaIndex> = self.parked.iter().copied().collect();
            parked.into_iter().for_each(|index| self.index_member(index));
        }
    }

    /// Notes that the record was looked at.
    fn processed(&mut self, core: &mut Core, index: ReplicaIndex) {
        let now = core.now;
        let turn = self.next_turn();
        let member = self.member(index);
        (member.processed, member.turn, member.fresh) = (now, turn, false);
        self.index_member(index);
    }

    /// Follows one edge of a node's states, and of its phases if it is an edge there too.
    fn advance(&mut self, core: &mut Core, index: ReplicaIndex, to: MemberState, because: Option<Reason>) {
        let ideal = self.is_ideal();
        let member = self.member(index);
        let (from, job) = (member.state, member.run);
        assert!(is_member_edge(from, to), "a node of a run cannot go from {from:?} to {to:?}");
        member.state = to;
        member.flagged |= ideal;
        let replica = &core.replicas[index as usize];
        let phase = to.phase(replica.placement.is_some());
        // What is placed and what ends have events of their own.
        if replica.phase != phase && !matches!(phase, Phase::Scheduled | Phase::Ended) {
            self.enter(core, index, phase, because);
        }
        self.stir(job);
        self.index_member(index);
    }

    /// Shows a change in one node to its run, and to the nodes that wait for others of the run; without loops, at
    /// once.
    fn stir(&mut self, job: JobId) {
        let ideal = self.is_ideal();
        let run = self.run(job);
        run.changed = true;
        run.flagged |= ideal && run.state != WholeState::Ended;
        self.index_run(job);
        for group in 0..self.run(job).groups.len() {
            let members = self.run(job).groups[group].members.clone();
            // Nobody begins before all can, and a node that is already due stays so. So each node sees each change
            // once, and not once for each of the others.
            let all_can = self.are_ready(&members) || self.options.placeless == PlacelessRule::Raises;
            for index in members {
                let member = self.member(index);
                match member.state {
                    MemberState::Pulling if all_can && (!member.lively || (ideal && !member.flagged)) => {
                        member.flagged |= ideal;
                        self.index_member(index);
                    }
                    MemberState::Provisioning if !member.lively || (ideal && !member.flagged) => {
                        member.flagged |= ideal;
                        self.index_member(index);
                    }
                    MemberState::Submitted => self.index_member(index),
                    MemberState::Waiting
                    | MemberState::Assigned
                    | MemberState::Provisioning
                    | MemberState::Pulling
                    | MemberState::Running
                    | MemberState::Terminating
                    | MemberState::Draining
                    | MemberState::Ended => {}
                }
            }
        }
    }

    fn flag(&mut self, index: ReplicaIndex) {
        self.member(index).flagged = true;
        self.index_member(index);
    }

    fn flag_run(&mut self, job: JobId) {
        self.run(job).flagged = true;
        self.index_run(job);
    }

    /// Follows one edge of a run's states.
    fn advance_run(&mut self, job: JobId, to: WholeState) {
        let ideal = self.is_ideal();
        let run = self.run(job);
        assert!(is_whole_edge(run.state, to), "a run cannot go from {:?} to {to:?}", run.state);
        run.state = to;
        run.changed = true;
        run.flagged |= ideal;
        self.index_run(job);
        // Whether its nodes are looked at depends on the run's state.
        for index in self.members_of(job) {
            self.index_member(index);
        }
    }

    /// Ends a node of a run. It terminates in the looks that follow.
    fn terminate(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let member = self.member(index);
        assert!(member.state.is_live(), "what is not live is terminating already");
        member.ending = Some((outcome, because));
        member.parked = None;
        self.unlist(index);
        if core.replicas[index as usize].placement.is_some() {
            core.replicas[index as usize].stopping = Some((outcome, because));
        }
        self.advance(core, index, MemberState::Terminating, Some(because));
    }
}

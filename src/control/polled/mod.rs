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
pub(super) use rows::Flow;
pub use view::{MemberStanding, RunStanding};

use super::Control;
use super::store::ReplicaIndex;
use clock::Look;
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_ids::JobId;
use dryrack_lifecycle::{MemberState, WholeState, is_member_edge, is_whole_edge};
use dryrack_units::SimTime;

impl Control {
    fn flow(&mut self) -> &mut Flow {
        let flow = self.runs.as_mut().expect("only a profile that has runs comes here");
        flow.now = self.now;
        flow
    }

    /// For a caller that steps this control plane through every look, in rounds of its own: no look is left out
    /// because nothing would come of it.
    pub fn look_in_rounds(&mut self) {
        if let Some(flow) = &mut self.runs {
            flow.in_rounds = true;
        }
    }

    /// Takes all looks that are due.
    pub(super) fn look_at_runs(&mut self) {
        if self.runs.is_none() {
            return;
        }
        self.unpark();
        let now = self.now;
        // With loops, a loop that comes by and finds nothing has still come by. Without loops, whatever has changed
        // is looked at again: each look changes something, or is the last one at its record.
        let flow = self.flow();
        let enough = 1000 + 64 * (flow.members.len() + flow.runs.len());
        for rounds in 0.. {
            assert!(rounds < enough, "looks at runs go on for ever at {now}: {:?}", self.next_look());
            let mut looked = false;
            for look in Look::ALL {
                let of_all = self.flow().in_rounds;
                if self.flow().clocks[look as usize].comes_by(now, of_all) {
                    self.poll(look);
                    looked = true;
                }
            }
            if !looked || !self.flow().is_ideal() {
                break;
            }
            self.unpark();
        }
        self.unpark();
    }

    pub(super) fn next_look(&self) -> Option<(SimTime, &'static str)> {
        let flow = self.runs.as_ref()?;
        Look::ALL.into_iter().filter_map(|look| Some((flow.clocks[look as usize].next(self.now)?, look.reason()))).min()
    }

    fn poll(&mut self, look: Look) {
        let now = self.now;
        let mut rows = self.flow().clocks[look as usize].poll(now);
        let flow = self.runs.as_ref().expect("asked above");
        match look {
            Look::Runs => rows.sort_by_key(|row| {
                let run = &flow.runs[*row as usize];
                (run.processed, run.turn)
            }),
            Look::Submitted => rows.sort_by_key(|row| {
                let member = &flow.members[*row as usize];
                (self.replicas[*row as usize].key.priority(), member.processed, member.turn, member.created)
            }),
            Look::Running | Look::Terminating => rows.sort_by_key(|row| {
                let member = &flow.members[*row as usize];
                (member.processed, member.turn, member.created)
            }),
        }
        rows.truncate(flow.clocks[look as usize].batch());
        for row in &rows {
            match look {
                Look::Runs => self.flow().run(JobId::new(*row as usize)).flagged = false,
                Look::Submitted | Look::Running | Look::Terminating => self.flow().member(*row).flagged = false,
            }
        }
        rows.reverse();
        self.flow().rest = rows;
        while let Some(row) = self.flow().rest.pop() {
            match look {
                Look::Runs => self.look_at_run(JobId::new(row as usize)),
                Look::Submitted => self.look_at_submitted(row),
                Look::Running => self.look_at_running(row),
                Look::Terminating => self.look_at_terminating(row),
            }
        }
    }

    /// Makes nodes that wait for capacity where they are due again, once the fleet has grown.
    fn unpark(&mut self) {
        let growth = self.fleet.growth();
        let flow = self.flow();
        if flow.growth != growth {
            flow.growth = growth;
            let parked: Vec<ReplicaIndex> = flow.parked.iter().copied().collect();
            parked.into_iter().for_each(|index| flow.index_member(index));
        }
    }

    /// Notes that the record was looked at.
    fn processed(&mut self, index: ReplicaIndex) {
        let now = self.now;
        let turn = self.flow().next_turn();
        let member = self.flow().member(index);
        (member.processed, member.turn, member.fresh) = (now, turn, false);
        self.flow().index_member(index);
    }

    /// Follows one edge of a node's states, and of its phases if it is an edge there too.
    fn advance(&mut self, index: ReplicaIndex, to: MemberState, because: Option<Reason>) {
        let ideal = self.flow().is_ideal();
        let member = self.flow().member(index);
        let (from, job) = (member.state, member.run);
        assert!(is_member_edge(from, to), "a node of a run cannot go from {from:?} to {to:?}");
        member.state = to;
        member.flagged |= ideal;
        let replica = &self.replicas[index as usize];
        let phase = to.phase(replica.placement.is_some());
        // What is placed and what ends have events of their own.
        if replica.phase != phase && !matches!(phase, Phase::Scheduled | Phase::Ended) {
            self.enter(index, phase, because);
        }
        self.stir(job);
        self.flow().index_member(index);
    }

    /// Shows a change in one node to its run, and to the nodes that wait for others of the run; without loops, at
    /// once.
    fn stir(&mut self, job: JobId) {
        let flow = self.flow();
        let ideal = flow.is_ideal();
        let run = flow.run(job);
        run.changed = true;
        run.flagged |= ideal && run.state != WholeState::Ended;
        flow.index_run(job);
        for group in 0..flow.run(job).groups.len() {
            let members = flow.run(job).groups[group].members.clone();
            // Nobody begins before all can, and a node that is already due stays so. So each node sees each change
            // once, and not once for each of the others.
            let all_can = flow.are_ready(&members) || flow.options.placeless == PlacelessRule::Raises;
            for index in members {
                let member = flow.member(index);
                match member.state {
                    MemberState::Pulling if all_can && (!member.lively || (ideal && !member.flagged)) => {
                        member.flagged |= ideal;
                        flow.index_member(index);
                    }
                    MemberState::Provisioning if !member.lively || (ideal && !member.flagged) => {
                        member.flagged |= ideal;
                        flow.index_member(index);
                    }
                    MemberState::Submitted => flow.index_member(index),
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
        self.flow().member(index).flagged = true;
        self.flow().index_member(index);
    }

    fn flag_run(&mut self, job: JobId) {
        self.flow().run(job).flagged = true;
        self.flow().index_run(job);
    }

    /// Follows one edge of a run's states.
    fn advance_run(&mut self, job: JobId, to: WholeState) {
        let ideal = self.flow().is_ideal();
        let run = self.flow().run(job);
        assert!(is_whole_edge(run.state, to), "a run cannot go from {:?} to {to:?}", run.state);
        run.state = to;
        run.changed = true;
        run.flagged |= ideal;
        self.flow().index_run(job);
        // Whether its nodes are looked at depends on the run's state.
        for index in self.flow().members_of(job) {
            self.flow().index_member(index);
        }
    }

    /// Ends a node of a run. It terminates in the looks that follow.
    fn terminate(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let member = self.flow().member(index);
        assert!(member.state.is_live(), "what is not live is terminating already");
        member.ending = Some((outcome, because));
        member.parked = None;
        self.flow().unlist(index);
        if self.replicas[index as usize].placement.is_some() {
            self.replicas[index as usize].stopping = Some((outcome, because));
        }
        self.advance(index, MemberState::Terminating, Some(because));
    }
}

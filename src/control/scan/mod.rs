//! The scanned flow: rows in a store, scans that put rows into a queue, and one consumer of the queue.
//!
//! ```text
//!   a row is created ──> scan ──> analysing, an entry in the queue ──> computed ──> scheduled
//!          ^      periodic scan ^                                            │
//!          │                    └────────── pending <───── fits nowhere ─────┘
//!          └── a replica is wanted: submitted, added, or its node was lost
//! ```
//!
//! An entry names a row by its id, and holds the demand from the time when the row was queued. Releases of GPUStack had
//! three faults because of this. Each fault is an option: an entry outlives its row, a deleted row's id is given to a
//! new row, or a row changes while it is computed.
//!
//! A row can be analysed again, or can start again after a failure. In both cases, one attempt ends and another begins.
//! The claims of the old attempt are *carried* until the new attempt is placed: in the ledger, they are claims of an
//! ended attempt.

mod consumer;
mod entries;
mod options;
mod restart;
mod row;
mod rows;
mod scale_down;
#[cfg(test)]
mod write_tests;

pub use options::{
    Created, DeadEntries, OwnClaim, PackedScaleDown, PausesFrom, Reads, RowIds, ScaleDown, ScanOptions, Unplaced,
    Writes,
};
pub use row::RowView;

use std::collections::{BTreeMap, BTreeSet};

use crate::attempts::Attempts;
use crate::clocks::PassTime;
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::core::timer::Timer;
use crate::flow::{Due, Flow, Visit, Visitor, WaitingChanges, visit_in_order};
use crate::pass::PassState;
use crate::pass_options::{PassOptions, Trigger};
use dryrack_event::{Command, Lifecycle, Outcome, Phase, Reason};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_policy::RetryState;
use dryrack_units::{SimDuration, SimTime};
use entries::{Computation, Entries};
use row::Row;

/// The state of a scanned flow.
pub struct Scanned {
    rows: BTreeMap<u64, Row>,
    row_of: BTreeMap<ReplicaIndex, u64>,
    /// Number of rows that were ever created.
    serial: u64,
    /// Replicas that need a row and have none yet.
    wanted: Vec<ReplicaIndex>,
    /// Rows created since the last scan.
    created: Vec<u64>,
    /// Rows that a scan may take, now or later.
    watched: BTreeSet<u64>,
    /// Increases with every change of a row, of a phase, or of the refusal of a demand.
    changes: u64,
    queue: Entries,
    computing: Option<Computation>,
    /// Number of computations that were ever begun.
    computations: u64,
    ticks: PassState,
    options: ScanOptions,
}

impl Scanned {
    pub(crate) fn new(options: &ScanOptions) -> Scanned {
        let pass = PassOptions {
            trigger: Trigger::Every(options.every),
            batch: None,
            jitter: SimDuration::ZERO,
            offset: SimDuration::ZERO,
            takes: PassTime::NONE,
        };
        let mut ticks = PassState::new(pass, 0, "scan");
        ticks.ran(SimTime::ZERO);
        Scanned {
            rows: BTreeMap::new(),
            row_of: BTreeMap::new(),
            serial: 0,
            wanted: Vec::new(),
            created: Vec::new(),
            watched: BTreeSet::new(),
            changes: 0,
            queue: Entries::default(),
            computing: None,
            computations: 0,
            ticks,
            options: *options,
        }
    }
}

impl Scanned {
    /// Runs the scans that are due, and lets the consumer work.
    fn run_scans(&mut self, core: &mut Core) {
        self.create_rows(core);
        let ticks = self.next_due(core).is_some_and(|(at, _)| at <= core.now);
        let created = std::mem::take(&mut self.created);
        if ticks {
            self.ticks.ran(core.now);
        }
        let all = ticks || (self.options.created == Created::ScansAll && !created.is_empty());
        let ids: Vec<u64> = if all { self.watched.iter().copied().collect() } else { created };
        let taken: Vec<u64> = ids.into_iter().filter(|id| self.is_to_be_scheduled(core, *id)).collect();
        taken.into_iter().for_each(|id| self.put(core, id));
        self.take_next(core);
    }

    /// Puts a row that a scan takes into the queue. The row is analysed, and an entry for it is added.
    fn put(&mut self, core: &mut Core, id: u64) {
        let index = self.rows[&id].replica;
        if core.store[index].phase == Phase::Scheduled {
            self.begin_again_in_row(core, index, Reason::NotPickedUp, true);
        }
        if core.store[index].phase == Phase::Pending {
            self.enter(core, index, Phase::Analysing, None);
            self.row_changed(core, index);
        }
        self.enqueue(core, id);
    }

    /// Ends a row's attempt and begins a pending one in the same row. The row carries the claims of the old attempt.
    fn begin_again_in_row(&mut self, core: &mut Core, index: ReplicaIndex, because: Reason, claims: bool) {
        let attempt = core.store[index].attempt_id();
        let placement = core.store[index].placement.clone().unwrap_or_default();
        let node = main_node(&placement);
        let kept = if claims { placement.clone() } else { Placement::default() };
        if node.is_some() {
            core.command(Command::Stop { attempt });
        }
        self.close_attempt(core, index, Outcome::Lost, because, kept);
        core.begin_next_attempt(index, core.now, because);
        core.store[index].wait = Wait::Scan;
        if let Some(node) = node {
            self.carry(core, index, Some(row::Carried { attempt, node, placement, claims }));
        }
    }
}

impl Flow for Scanned {
    fn queue_up(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.want_row(core, index);
    }

    fn settle(&mut self, core: &mut Core) {
        self.run_scans(core);
    }

    /// Only scans need a wakeup. The consumer waits only for inputs.
    fn next_due(&mut self, core: &mut Core) -> Option<Due> {
        (!self.watched.is_empty()).then(|| (self.ticks.next_tick(self.options.every, core.now), "a scan"))
    }

    /// Entries follow their replicas, whose demands may have other fields under the new profile.
    fn reconfigured(&mut self, core: &mut Core) {
        let computing = self.computing.iter_mut().map(|computing| &mut computing.entry);
        for entry in self.queue.iter_mut().chain(computing) {
            if let Some(replica) = core.store.replicas.get(entry.replica as usize) {
                entry.demand = replica.demand;
            }
        }
    }

    /// Asserts that each row belongs to exactly one replica, and that no row outlives its replica.
    fn check(&self, core: &Core) {
        assert_eq!(self.rows.len(), self.row_of.len(), "a row without a replica");
        for row in self.rows.values() {
            assert_eq!(self.row_of.get(&row.replica), Some(&row.id), "a row of another replica");
            let phase = core.store[row.replica].phase;
            assert!(phase != Phase::Ended, "row {} outlives its replica", row.id);
        }
    }

    /// Asserts nothing, because scans try every waiting row again and again.
    fn check_nothing_waits_in_vain(&self, _core: &Core) {}

    fn fact(&mut self, core: &mut Core, index: ReplicaIndex, attempt: AttemptId, fact: Lifecycle) {
        match fact {
            Lifecycle::Analysed | Lifecycle::AnalysisFailed => self.computed(core, attempt, fact),
            _ => self.attempt_fact(core, index, attempt, fact),
        }
    }

    fn parks_jobs(&self) -> bool {
        true
    }

    /// Replicas with a claim on the node, and replicas whose rows name the node. The order is that of their rows.
    fn on_node(&self, core: &Core, node: NodeId) -> Vec<ReplicaIndex> {
        let mut lost: Vec<ReplicaIndex> = core.nodes[node.index()].replicas.to_vec();
        let names = |row: &&Row| row.carried.as_ref().is_some_and(|carried| carried.node == node);
        lost.extend(self.rows.values().filter(names).map(|row| row.replica));
        lost.sort_by_key(|replica| (self.row_of.get(replica), *replica));
        lost
    }

    fn restarts_in_place(&self, core: &Core, index: ReplicaIndex) -> bool {
        self.options.restarts_in_place.is_some() && core.store[index].placement.is_some()
    }

    /// Keeps the row of the failed attempt together with its claim.
    fn keep_place(&mut self, core: &mut Core, index: ReplicaIndex, attempt: AttemptId, placement: Placement) {
        let node = main_node(&placement).expect("what is placed has a node");
        self.carry(core, index, Some(row::Carried { attempt, node, placement, claims: true }));
        self.row_changed(core, index);
    }

    fn restart_due(&mut self, core: &Core, index: ReplicaIndex, pause: SimDuration) -> SimTime {
        self.next_restart(core, index, pause)
    }

    fn restart(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.restart_in_place(core, index);
    }

    fn give_up(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.delete_row(core, index);
    }

    /// The failures of a replica are counted in its row. A lost replica gets a new row, so its count begins again at
    /// zero.
    fn forget_failures(&mut self, core: &mut Core, index: ReplicaIndex) {
        core.store[index].retry = RetryState::default();
    }

    fn withdraw(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.drop_entries(core, index);
    }

    fn sort_for_scale_down(&self, core: &Core, replicas: &mut Vec<ReplicaIndex>) {
        match self.options.scale_down {
            ScaleDown::OldestOfTheMostCrowded => self.sort_most_crowded_first(core, replicas),
            ScaleDown::YoungestOfTheLeastWell => core.sort_least_healthy_first(replicas),
        }
    }

    fn scale_down_fails(&self, core: &Core, replicas: &[ReplicaIndex]) -> bool {
        self.packed_scale_down_fails(core, replicas)
    }

    fn fire(&mut self, core: &mut Core, timer: Timer) {
        match timer {
            Timer::ComputationExpired { .. } => self.computation_expired(core),
            other => panic!("scans set no {other:?}"),
        }
    }

    fn analyses_ahead(&self, _core: &Core, index: ReplicaIndex) -> Option<(Vec<AttemptId>, Vec<AttemptId>)> {
        self.entries_before(index)
    }

    /// Visits the replicas of pending rows whose demand was refused by a computation.
    fn each_waiting(&self, core: &mut Core, visit: &mut Visitor<'_>) {
        let rows = self.watched.iter().map(|id| self.rows[id].replica);
        visit_in_order(core, rows, &mut |core, index| {
            let replica = &core.store[index];
            let is_refused = core.store.demands[replica.demand as usize].refused_at.is_some();
            if replica.phase == Phase::Pending && is_refused { visit(core, index) } else { Visit::GoOn }
        });
    }

    fn waiting_changes(&self, _core: &Core) -> WaitingChanges {
        (self.changes, SimTime::ZERO)
    }

    fn phase_changed(&mut self, _core: &mut Core, _index: ReplicaIndex, _before: (Phase, SimTime)) {
        self.changes += 1;
    }

    fn retries_forever(&self) -> bool {
        true
    }

    fn only_repeats_refusals(&self, core: &Core) -> bool {
        let growth = core.growth();
        self.watched.iter().all(|id| {
            let replica = &core.store[self.rows[id].replica];
            let is_refused = core.store.demands[replica.demand as usize].refused_at == Some(growth);
            // A row that is being analysed again counts too. If the queue never becomes empty, there is always such a
            // row.
            matches!(replica.phase, Phase::Pending | Phase::Analysing) && is_refused
        })
    }
}

/// The main node of a placement. For a model on several nodes, it is the node of the main part.
fn main_node(placement: &Placement) -> Option<NodeId> {
    let main = placement.claims().iter().find(|claim| claim.tasks > 0);
    main.or(placement.claims().first()).map(|claim| claim.node)
}

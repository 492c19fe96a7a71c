//! A scanned flow: rows in a store, scans that put some of them into a queue, and one consumer of the queue.
//!
//! ```text
//!   a row is created ──> scan ──> analysing, an entry in the queue ──> computed ──> scheduled
//!          ^   every so often ^                                            │
//!          │                  └──────────── pending <──── fits nowhere ────┘
//!          └── a replica is wanted: submitted, added, or its node was lost
//! ```
//!
//! An entry names a row by its id and has the demand with which the row was put there. What GPUStack's releases got
//! wrong here follows from that, and each fault is an option: an entry outlives its row, an id is given again, a row
//! changes while it is computed.
//!
//! A row that is analysed again, or that failed and is to start again, has ended one attempt and begun another. What
//! it claims until the new attempt is placed is *carried*: in the ledger, it is a claim that outlives its run.

mod consumer;
mod options;
mod restart;
mod rows;
mod scale_down;

pub use options::{
    Created, DeadEntries, OwnClaim, PackedScaleDown, PausesFrom, Reads, RowIds, ScaleDown, ScanOptions, Unplaced,
    Writes,
};
pub use rows::RowView;

use std::collections::{BTreeMap, BTreeSet};

use super::Control;
use super::clocks::PassTime;
use super::passes::PassState;
use super::profile::{PassOptions, Trigger};
use super::store::ReplicaIndex;
use consumer::{Computation, Entries};
use dryrack_event::{Command, Outcome, Phase, Reason};
use dryrack_fleet::Placement;
use dryrack_ids::{NodeId, RunId};
use dryrack_units::{SimDuration, SimTime};
use rows::Row;

/// The state of a scanned flow.
pub struct ScanState {
    rows: BTreeMap<u64, Row>,
    row_of: BTreeMap<ReplicaIndex, u64>,
    /// How many rows there ever were.
    serial: u64,
    /// Replicas that are wanted and have no row yet.
    wanted: Vec<ReplicaIndex>,
    /// Rows created since the last scan.
    created: Vec<u64>,
    /// Rows that a scan may take, now or later.
    watched: BTreeSet<u64>,
    queue: Entries,
    computing: Option<Computation>,
    /// How many computations there ever were.
    computations: u64,
    ticks: PassState,
}

impl ScanState {
    pub fn new(options: &ScanOptions) -> ScanState {
        let pass = PassOptions {
            trigger: Trigger::Every(options.every),
            batch: None,
            jitter: SimDuration::ZERO,
            offset: SimDuration::ZERO,
            takes: PassTime::NONE,
        };
        let mut ticks = PassState::new(pass, 0, "scan");
        ticks.ran(SimTime::ZERO);
        ScanState {
            rows: BTreeMap::new(),
            row_of: BTreeMap::new(),
            serial: 0,
            wanted: Vec::new(),
            created: Vec::new(),
            watched: BTreeSet::new(),
            queue: Entries::default(),
            computing: None,
            computations: 0,
            ticks,
        }
    }
}

impl Control {
    /// When a scan is due. The consumer waits only for inputs.
    pub(super) fn scan_due(&self) -> Option<(SimTime, &'static str)> {
        let (scan, options) = (self.scan.as_ref()?, self.profile.scan.as_ref()?);
        (!scan.watched.is_empty()).then(|| (scan.ticks.next_tick(options.every, self.now), "a scan"))
    }

    /// Whether all that is left to do is to repeat refusals that were made since the fleet last grew.
    pub fn only_scans_in_vain(&mut self) -> bool {
        let growth = self.fleet.growth();
        let Some(scan) = &self.scan else { return false };
        let in_vain = scan.watched.iter().all(|id| {
            let replica = &self.replicas[scan.rows[id].replica as usize];
            let is_refused = self.demands[replica.demand as usize].refused_at == Some(growth);
            // With a queue that never empties, some row is always being analysed again.
            matches!(replica.phase, Phase::Pending | Phase::Analysing) && is_refused
        });
        in_vain && self.next_but_scans().is_none()
    }

    /// Whether it goes on looking for as long as anything is not served.
    pub fn scans(&self) -> bool {
        self.scan.is_some()
    }

    /// Runs the scans that are due, and lets the consumer go on.
    pub(super) fn run_scans(&mut self) {
        if self.scan.is_none() {
            return;
        }
        self.create_rows();
        let ticks = self.scan_due().is_some_and(|(at, _)| at <= self.now);
        let scan = self.scan.as_mut().expect("checked above");
        let created = std::mem::take(&mut scan.created);
        let options = self.scan_options();
        let scan = self.scan.as_mut().expect("checked above");
        if ticks {
            scan.ticks.ran(self.now);
        }
        let all = ticks || (options.created == Created::ScansAll && !created.is_empty());
        let looked_at: Vec<u64> = if all { scan.watched.iter().copied().collect() } else { created };
        let taken: Vec<u64> = looked_at.into_iter().filter(|id| self.is_to_be_scheduled(*id)).collect();
        taken.into_iter().for_each(|id| self.put(id));
        self.take_next();
    }

    /// Puts a row that a scan takes into the queue: the row is analysed, and an entry for it is added.
    fn put(&mut self, id: u64) {
        let scan = self.scan.as_ref().expect("a scan is going on");
        let index = scan.rows[&id].replica;
        if self.replicas[index as usize].phase == Phase::Scheduled {
            self.begin_again_in_row(index, Reason::NotPickedUp, true);
        }
        if self.replicas[index as usize].phase == Phase::Pending {
            self.enter(index, Phase::Analysing, None);
            self.row_changed(index);
        }
        self.enqueue(id);
    }

    /// Ends a row's attempt and begins another, pending, in the same row. What the old attempt claimed is carried.
    fn begin_again_in_row(&mut self, index: ReplicaIndex, because: Reason, claims: bool) {
        let run = self.replicas[index as usize].run();
        let placement = self.replicas[index as usize].placement.clone().unwrap_or_default();
        let node = main_node(&placement);
        let kept = if claims { placement.clone() } else { Placement::default() };
        if node.is_some() {
            self.command(Command::Stop { run });
        }
        self.close_attempt(index, Outcome::Lost, because, kept);
        self.begin_next_attempt(index, self.now, because);
        self.replicas[index as usize].wait = super::store::Wait::Scan;
        if let Some(node) = node {
            self.carry(index, Some(rows::Carried { run, node, placement, claims }));
        }
    }

    /// What is lost with a node: everything that has a claim there, and the rows that name the node. In a scanned
    /// flow, they are in the order of their rows.
    pub(super) fn on_node_in_order(&self, node: NodeId) -> Vec<ReplicaIndex> {
        let mut lost: Vec<ReplicaIndex> = self.nodes[node.index()].runs.iter().copied().collect();
        if let Some(scan) = &self.scan {
            let names = |row: &&Row| row.carried.as_ref().is_some_and(|carried| carried.node == node);
            lost.extend(scan.rows.values().filter(names).map(|row| row.replica));
            lost.sort_by_key(|replica| (scan.row_of.get(replica), *replica));
        }
        lost
    }

    /// Whether the claim that outlives this run is carried by its row.
    pub(super) fn is_carried(&self, run: RunId) -> bool {
        let Some(index) = self.jobs[run.job.index()].replica(run.replica) else { return false };
        self.carried(index).is_some_and(|carried| carried.run == run)
    }

    /// Asserts for a scanned flow that each replica has one row, and that each row has a replica that is wanted.
    pub(super) fn assert_rows(&self) {
        let Some(scan) = &self.scan else { return };
        assert_eq!(scan.rows.len(), scan.row_of.len(), "a row without a replica");
        for row in scan.rows.values() {
            assert_eq!(scan.row_of.get(&row.replica), Some(&row.id), "a row of another replica");
            let phase = self.replicas[row.replica as usize].phase;
            assert!(phase != Phase::Ended, "row {} outlives its replica", row.id);
        }
    }
}

/// The node on which a replica leads; for a model on several nodes, the one with its task.
fn main_node(placement: &Placement) -> Option<NodeId> {
    let main = placement.claims().iter().find(|claim| claim.tasks > 0);
    main.or(placement.claims().first()).map(|claim| claim.node)
}

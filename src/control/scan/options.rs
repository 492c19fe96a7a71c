//! What a profile says of a scanned flow.

use serde::{Deserialize, Serialize};

use super::super::profile::ProfileError;
use dryrack_units::{SimDuration, text_form};

/// Every replica has a row in a store. Scans over the rows put those that are to be placed into a queue, and one consumer
/// takes them from it, computes where they go and writes that into their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanOptions {
    /// Time between two scans over all rows, the first after one such time.
    #[serde(with = "text_form")]
    pub every: SimDuration,
    pub created: Created,
    /// A pending row that has been in the store for a moment is looked at again by a scan so long after its last change;
    /// at every scan if absent.
    #[serde(with = "text_form::option")]
    pub pending_again: Option<SimDuration>,
    /// A row still being analysed, and one still scheduled, is put into the queue again so long after its last change;
    /// never if absent. Only then may a deadline hold what is scheduled.
    #[serde(with = "text_form::option")]
    pub stale_after: Option<SimDuration>,
    /// The store's clock ticks so often: a change is dated by its last tick. Exact if no time.
    #[serde(with = "text_form")]
    pub dated_to: SimDuration,
    pub dead_entries: DeadEntries,
    pub row_ids: RowIds,
    pub reads: Reads,
    pub writes: Writes,
    pub own_claim: OwnClaim,
    pub unplaced: Unplaced,
    /// What failed starts again where it was, when its node next looks for it; it looks so often. If absent, it is placed
    /// anew.
    #[serde(with = "text_form::option")]
    pub restarts_in_place: Option<SimDuration>,
    pub pauses_from: PausesFrom,
    pub scale_down: ScaleDown,
    pub packed_scale_down: PackedScaleDown,
}

/// What follows when a row is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Created {
    /// A scan over all rows.
    ScansAll,
    /// That row alone is looked at.
    ScansItself,
}

/// What becomes of an entry of the queue whose row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadEntries {
    /// It leaves the queue with its row, and a computation under way is given up.
    Removed,
    /// It is dropped when its turn comes; a computation under way goes on.
    DroppedInTurn,
    /// It is computed like any other, and the row looked for afterwards (GPUStack 1243).
    Computed,
}

/// The id of a new row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowIds {
    /// Never given before.
    New,
    /// One more than the highest in the store, as SQLite does for a primary key without AUTOINCREMENT: the id of a deleted
    /// row may be given again, and an entry of the queue that names it then names the new row.
    AboveHighest,
}

/// When a computation reads the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// When all else that it takes is known.
    Late,
    /// When it begins: what happens while it lasts is not seen.
    Early,
}

/// How what was computed is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// Only where the row is as it was read, and what was chosen would still do; likewise where it starts again in its place.
    Checked,
    /// Over whatever is there: what has changed since is lost, but for the columns that the computation leaves as it read
    /// them.
    Blind,
}

/// A row that is analysed again though it was scheduled: is what it claims itself free to it?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnClaim {
    Free,
    /// It is in its own way.
    Counted,
}

/// What becomes of a row that was scheduled, is analysed again and fits nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unplaced {
    /// It is pending like any other.
    Released,
    /// It claims nothing any more, but keeps its node's name, and no scan looks at a pending row that has one.
    KeepsNode,
    /// It keeps its claim too.
    KeepsNodeAndClaim,
}

/// From when the pause before another attempt counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausesFrom {
    Failure,
    /// From the last start after a failure, so that one that ran for long is started again at once.
    LastStart,
}

/// Which replicas go first when there are to be fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleDown {
    /// The furthest from running well, and of these the youngest.
    YoungestOfTheLeastWell,
    /// The furthest from running well, of these those on the nodes with most, and of these the oldest.
    OldestOfTheMostCrowded,
}

/// What a wish for fewer replicas of a packed model leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackedScaleDown {
    /// Fewer replicas.
    Works,
    /// Nothing, once one of them has a node: the score of its placement adds up a claim of RAM that is not stated.
    Fails,
}

impl ScanOptions {
    /// All that is wrong with it.
    pub fn faults(&self, historic: bool) -> Vec<ProfileError> {
        let mut faults = Vec::new();
        for (name, time) in [
            ("scan.every", Some(self.every)),
            ("scan.stale_after", self.stale_after),
            ("scan.restarts_in_place", self.restarts_in_place),
        ] {
            faults.extend(time.is_some_and(SimDuration::is_zero).then_some(ProfileError::NoTime(name)));
        }
        let only_historic = [
            ("scan.dead_entries", self.dead_entries != DeadEntries::Removed),
            ("scan.row_ids", self.row_ids != RowIds::New),
            ("scan.writes", self.writes != Writes::Checked),
            ("scan.own_claim", self.own_claim != OwnClaim::Free),
            ("scan.packed_scale_down", self.packed_scale_down != PackedScaleDown::Works),
            ("scan.unplaced", self.unplaced != Unplaced::Released),
        ];
        let only_historic = only_historic.into_iter().filter(|(_, is_a_fault)| *is_a_fault && !historic);
        faults.extend(only_historic.map(|(name, _)| ProfileError::OnlyHistoric(name)));
        faults
    }
}

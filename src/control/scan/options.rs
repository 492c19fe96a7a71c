//! What a profile says of a scanned flow.

use serde::{Deserialize, Serialize};

use crate::profile::ProfileError;
use dryrack_units::{SimDuration, text_form};

/// Options of a scanned flow. Every replica has a row in a store. Scans over the rows put those that are to be placed
/// into a queue. One consumer takes them from it, computes where they go, and writes that into their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanOptions {
    /// Time between two scans over all rows. The first scan is after one such time.
    #[serde(with = "text_form")]
    pub every: SimDuration,
    pub created: Created,
    /// A pending row that has been in the store for a moment is looked at again by a scan this long after its last
    /// change; at every scan if absent.
    #[serde(with = "text_form::option")]
    pub pending_again: Option<SimDuration>,
    /// A row that is still being analysed, or still scheduled, is put into the queue again this long after its last
    /// change; never if absent. Only then may a deadline hold what is scheduled.
    #[serde(with = "text_form::option")]
    pub stale_after: Option<SimDuration>,
    /// The tick of the store's clock. A change is dated by the last tick; exactly if this is zero.
    #[serde(with = "text_form")]
    pub dated_to: SimDuration,
    pub dead_entries: DeadEntries,
    pub row_ids: RowIds,
    pub reads: Reads,
    pub writes: Writes,
    pub own_claim: OwnClaim,
    pub unplaced: Unplaced,
    /// How often a node looks for what failed on it. What failed starts again where it was, when its node next looks.
    /// If absent, it is placed anew.
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

/// What happens to an entry of the queue whose row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadEntries {
    /// It leaves the queue with its row, and a computation under way is given up.
    Removed,
    /// It is dropped when its turn comes; a computation under way goes on.
    DroppedInTurn,
    /// It is computed like any other, and the row is looked for afterwards (GPUStack 1243).
    Computed,
}

/// The id of a new row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowIds {
    /// Never given before.
    New,
    /// One more than the highest in the store, as SQLite does for a primary key without AUTOINCREMENT. So the id of a
    /// deleted row may be given again, and an entry of the queue that names it then names the new row.
    AboveHighest,
}

/// When a computation reads the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// When everything else that the computation needs is known.
    Late,
    /// When the computation begins. What happens while it lasts is not seen.
    Early,
}

/// How the result of a computation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// Only if the row is as it was read, and the chosen place would still do. The same holds when a row starts again
    /// in place.
    Checked,
    /// Over whatever is there. What has changed since is lost, except for the columns that the computation leaves as
    /// it read them.
    Blind,
}

/// Whether a row that is analysed again although it was scheduled finds its own claim free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnClaim {
    Free,
    /// The claim counts as taken, so the row is in its own way.
    Counted,
}

/// What happens to a row that was scheduled, is analysed again, and fits nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unplaced {
    /// It is pending like any other.
    Released,
    /// It no longer claims anything, but keeps its node's name, and no scan looks at a pending row that has one.
    KeepsNode,
    /// It keeps its claim as well.
    KeepsNodeAndClaim,
}

/// The time from which the pause before another attempt counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausesFrom {
    Failure,
    /// The last start after a failure, so that a replica that ran for long is started again at once.
    LastStart,
}

/// Which replicas go first when a job is scaled down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleDown {
    /// The furthest from running well; of these, the youngest.
    YoungestOfTheLeastWell,
    /// The furthest from running well; of these, those on the most crowded nodes; of these, the oldest.
    OldestOfTheMostCrowded,
}

/// What happens when fewer replicas of a packed model are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackedScaleDown {
    /// It gets fewer replicas.
    Works,
    /// Nothing, once one of them has a node, because the score of its placement adds up a claim of RAM that is not
    /// stated.
    Fails,
}

impl ScanOptions {
    /// All errors in these options.
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

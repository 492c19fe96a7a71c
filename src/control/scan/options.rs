//! Options of the scanned flow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile_error::ProfileError;
use dryrack_units::{OptionalTextForm, SimDuration, TextForm};

/// Options of the scanned flow. Every replica has a row in a store. Scans over the rows put rows that need a place into
/// a queue. One consumer takes them from the queue, computes their places, and writes the places into the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanOptions {
    /// Time between two scans over all rows. The first scan comes after this time.
    #[serde(with = "TextForm")]
    pub every: SimDuration,
    pub created: Created,
    /// Time since the last change of a pending row after which a scan takes it again. This applies only to rows that
    /// were changed at least one second after their creation. If absent, every scan takes them.
    #[serde(with = "OptionalTextForm")]
    pub pending_again: Option<SimDuration>,
    /// Time since the last change after which a row that is still being analysed or still scheduled is put into the
    /// queue again; never if absent. The deadline for scheduled rows is in force only if this is stated.
    #[serde(with = "OptionalTextForm")]
    pub stale_after: Option<SimDuration>,
    /// Precision of the store's clock: a change is dated to the last multiple of this time; exactly if this is zero.
    #[serde(with = "TextForm")]
    pub dated_to: SimDuration,
    pub dead_entries: DeadEntries,
    pub row_ids: RowIds,
    pub reads: Reads,
    pub writes: Writes,
    pub own_claim: OwnClaim,
    pub unplaced: Unplaced,
    /// How often a node checks for failed replicas on it. At the next check, a failed replica starts again on the same
    /// node. If absent, a failed replica is placed again.
    #[serde(with = "OptionalTextForm")]
    pub restarts_in_place: Option<SimDuration>,
    pub pauses_from: PausesFrom,
    pub scale_down: ScaleDown,
    pub packed_scale_down: PackedScaleDown,
}

/// What follows the creation of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Created {
    /// A scan over all rows follows.
    ScansAll,
    /// Only the new row is scanned.
    ScansItself,
}

/// What happens to a queue entry whose row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeadEntries {
    /// The entry leaves the queue together with its row. If it is being computed, the computation is given up.
    Removed,
    /// The entry is dropped when its turn comes. A computation in progress continues.
    DroppedInTurn,
    /// The entry is computed like any other, and its row is read only afterwards (GPUStack 1243).
    Computed,
}

/// The id of a new row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowIds {
    /// An id that was never used before.
    New,
    /// One more than the highest id in the store, as SQLite does for a primary key without AUTOINCREMENT. So a new row
    /// may get the id of a deleted row. A queue entry with that id then names the new row.
    AboveHighest,
}

/// When a computation reads the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// At the end of the computation, when everything else that it needs is known.
    Late,
    /// At the beginning of the computation, so later changes are not seen.
    Early,
}

/// How the result of a computation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// The result is written only if the row is as it was read and the chosen place still fits. A restart in place is
    /// checked in the same way.
    Checked,
    /// The result overwrites the existing values. Changes since the read are lost, except in columns whose value the
    /// computation does not change.
    Blind,
}

/// Whether a scheduled row that is analysed again sees its own claim as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnClaim {
    Free,
    /// The claim counts as taken, so the row competes with its own claim.
    Counted,
}

/// What happens to a scheduled row that is analysed again and fits nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unplaced {
    /// The row becomes pending like any other, and its claim is freed.
    Released,
    /// The row frees its claim but keeps the name of its node. No scan takes a pending row with a node name.
    KeepsNode,
    /// The row keeps both its claim and the name of its node.
    KeepsNodeAndClaim,
}

/// The time from which the pause before another attempt is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PausesFrom {
    Failure,
    /// The last start after a failure. So a replica that failed after a long run is started again at once.
    LastStart,
}

/// Which replicas are removed first when a job is scaled down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScaleDown {
    /// The least healthy replicas, and among these the youngest.
    YoungestOfTheLeastWell,
    /// The least healthy replicas, and among these those on the most crowded nodes, the oldest first.
    OldestOfTheMostCrowded,
}

/// What happens when a packed model is scaled down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PackedScaleDown {
    /// The model gets fewer replicas.
    Works,
    /// Nothing happens once one of the replicas has a node. The score of its placement adds up RAM claims, and fails
    /// because none is stated.
    Fails,
}

impl ScanOptions {
    /// All errors in these options.
    pub fn faults(&self, historic: bool) -> Vec<ProfileError> {
        let mut faults = Vec::new();
        for (name, time) in [
            ("flow.scanned.every", Some(self.every)),
            ("flow.scanned.stale_after", self.stale_after),
            ("flow.scanned.restarts_in_place", self.restarts_in_place),
        ] {
            faults.extend(time.is_some_and(SimDuration::is_zero).then_some(ProfileError::NoTime(name)));
        }
        let only_historic = [
            ("flow.scanned.dead_entries", self.dead_entries != DeadEntries::Removed),
            ("flow.scanned.row_ids", self.row_ids != RowIds::New),
            ("flow.scanned.writes", self.writes != Writes::Checked),
            ("flow.scanned.own_claim", self.own_claim != OwnClaim::Free),
            ("flow.scanned.packed_scale_down", self.packed_scale_down != PackedScaleDown::Works),
            ("flow.scanned.unplaced", self.unplaced != Unplaced::Released),
        ];
        let only_historic = only_historic.into_iter().filter(|(_, is_a_fault)| *is_a_fault && !historic);
        faults.extend(only_historic.map(|(name, _)| ProfileError::OnlyHistoric(name)));
        faults
    }
}

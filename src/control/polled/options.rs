//! Options of the polled flow: how its loops poll records, and what they do with them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile_error::ProfileError;
use dryrack_units::{SimDuration, TextForm};

/// The polled flow. In its profiles, a demand of several tasks, each on a separate node (`gang: spread`), is a run of
/// that many nodes. Every node is placed, started and ended separately. The nodes fail together and are tried again
/// together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsOptions {
    pub loops: Loops,
    pub gang: GangRule,
    pub prepare: PrepareRule,
    pub begin: BeginRule,
    pub placeless: PlacelessRule,
    pub no_capacity: NoCapacityRule,
    /// Pauses before each new submission of a failed run, in order. The last pause repeats.
    pub pauses: Vec<Pause>,
    pub release: ReleaseRule,
    pub uncounted: UncountedRule,
    pub replica_retry: ReplicaRetryRule,
}

/// When loops poll records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loops {
    /// A changed record is polled in the same instant, until nothing changes any more.
    Ideal,
    /// Each record is polled once its interval has passed since the last poll. Within one instant, submitted nodes
    /// come first, then running nodes, terminating nodes, and runs.
    Polled(PolledLoops),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolledLoops {
    pub submitted: SubmittedLoop,
    pub running: RunningLoop,
    pub terminating: TerminatingLoop,
    pub runs: RunsLoop,
}

/// When one loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// Time between two rounds. A round looks for due records.
    #[serde(with = "TextForm")]
    pub every: SimDuration,
    /// Random delay of each round, from zero to this time.
    #[serde(with = "TextForm")]
    pub jitter: SimDuration,
    /// Maximum number of records that one round polls; all due records if absent.
    pub batch: Option<u32>,
}

/// The shortest time between two polls of one record. A flagged record is polled in the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmittedLoop {
    pub rounds: Rounds,
    /// Interval for a node that waits for a place.
    #[serde(with = "TextForm")]
    pub interval: SimDuration,
    /// How a place that was found is used: in the same poll, or in the next one.
    pub passes: Assignment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    OnePass,
    TwoPasses,
}

/// The loop that visits nodes that have a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningLoop {
    pub rounds: Rounds,
    /// Interval for a node that has not started yet.
    #[serde(with = "TextForm")]
    pub starting: SimDuration,
    /// Interval for a node that has started.
    #[serde(with = "TextForm")]
    pub running: SimDuration,
}

/// The loop that visits nodes that are ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminatingLoop {
    pub rounds: Rounds,
    /// Interval for a node that is ending.
    #[serde(with = "TextForm")]
    pub interval: SimDuration,
    /// Whether a node that has run is given up only in the second poll. The first poll then asks for its final report.
    pub drains: bool,
}

/// The loop that visits runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsLoop {
    pub rounds: Rounds,
    /// Interval for a run that is submitted or terminating.
    #[serde(with = "TextForm")]
    pub hasty: SimDuration,
    /// Interval for all other runs.
    #[serde(with = "TextForm")]
    pub interval: SimDuration,
    /// Whether a poll of a run also counts as a poll of each of its nodes. The nodes then lose their turn.
    pub counts_for_nodes: bool,
}

/// How the nodes of a run are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GangRule {
    /// All nodes are placed in one decision, or none is placed.
    Whole,
    /// The master is placed first, then each worker. A node that has a place keeps it while other nodes are refused.
    /// Only a historic profile may have this.
    OneByOne,
}

/// When a placed node is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrepareRule {
    AtOnce,
    /// A node that must begin later than others is prepared only after those have begun (dstack 0.22.5).
    InTurn,
    /// No node is prepared until every node of the replica has a place (dstack 0.19.9 and 0.19.10).
    AllPlaced,
}

/// When a prepared node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BeginRule {
    /// Once every node of the run has a place.
    AllPlaced,
    /// Once every node of the run is prepared. All nodes then begin together.
    AllPrepared,
}

/// How a node that is about to begin reacts if another node of its replica ended without ever having a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlacelessRule {
    /// The node waits until its run reacts to the end of the other node.
    Waits,
    /// The poll of the node fails and leaves its record locked, so no loop can poll its run either (dstack up to
    /// 0.21.1, issue 4146). Only a historic profile may have this.
    Raises,
}

/// What happens to a node that finds no place but may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoCapacityRule {
    /// The node keeps its turn. It is polled again as soon as capacity is released.
    KeepsTurn,
    /// The run of the node pauses, longer after each failure, and is not in the queue meanwhile. So a later run, or one
    /// with a lower priority, can take capacity that is released (dstack up to 0.22.5, issue 4246).
    BacksOff,
}

/// How the records change when several nodes of a run on one host release their claims in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseRule {
    Each,
    /// Each claim is subtracted from the amount that was taken at the beginning of the round. So only the last
    /// subtraction takes effect, and the other claims stay taken forever (dstack up to 0.21.0, issue 4117). Only a
    /// historic profile may have this.
    LastOfRound,
}

/// When a failed replica is submitted again while other replicas of its run continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaRetryRule {
    /// After its nodes have ended and the first pause is over.
    FirstPause,
    /// If the replica holds nothing, in the poll of its run that notices the failure; otherwise once the replica holds
    /// nothing. So while it finds no capacity, it is submitted again at every poll of its run (dstack up to 0.22.5).
    /// Without loops, this equals `first_pause`.
    AtOnce,
}

/// The number of replicas of a scaling service before its requests are counted for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UncountedRule {
    /// The smallest number that the service allows.
    Fewest,
    /// One replica, even if the limits of the service are different. A service that began with more is scaled down. A
    /// service that allows zero replicas begins with one (dstack up to 0.22.5, where a run without data is given the
    /// number one). Only a historic profile may have this.
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Pause(#[serde(with = "TextForm")] pub SimDuration);

impl RunsOptions {
    /// The pause before the next submission, after `attempt` failed submissions. The count begins at 1.
    pub(super) fn pause(&self, attempt: u32) -> SimDuration {
        let index = (attempt as usize).saturating_sub(1).min(self.pauses.len() - 1);
        self.pauses[index].0
    }

    /// All errors in these options.
    pub(crate) fn faults(&self, historic: bool) -> Vec<ProfileError> {
        let mut faults = Vec::new();
        faults.extend(self.pauses.is_empty().then_some(ProfileError::Empty("flow.polled.pauses")));
        let waits_in_circles = self.prepare == PrepareRule::InTurn && self.begin == BeginRule::AllPrepared;
        faults.extend(waits_in_circles.then_some(ProfileError::TurnsOfPrepared));
        let is_instant = |pause: &Pause| pause.0.is_zero();
        faults.extend(self.pauses.iter().any(is_instant).then_some(ProfileError::NoTime("flow.polled.pauses")));
        if !historic {
            faults.extend(
                (self.gang == GangRule::OneByOne)
                    .then_some(ProfileError::HistoricOnly("flow.polled.gang", "one_by_one")),
            );
            faults.extend(
                (self.placeless == PlacelessRule::Raises)
                    .then_some(ProfileError::HistoricOnly("flow.polled.placeless", "raises")),
            );
            faults.extend(
                (self.release == ReleaseRule::LastOfRound)
                    .then_some(ProfileError::HistoricOnly("flow.polled.release", "last_of_round")),
            );
            faults.extend(
                (self.uncounted == UncountedRule::One)
                    .then_some(ProfileError::HistoricOnly("flow.polled.uncounted", "one")),
            );
        }
        let Loops::Polled(loops) = &self.loops else { return faults };
        for (name, rounds) in [
            ("flow.polled.loops.polled.submitted.rounds", loops.submitted.rounds),
            ("flow.polled.loops.polled.running.rounds", loops.running.rounds),
            ("flow.polled.loops.polled.terminating.rounds", loops.terminating.rounds),
            ("flow.polled.loops.polled.runs.rounds", loops.runs.rounds),
        ] {
            faults.extend(rounds.every.is_zero().then_some(ProfileError::NoTime(name)));
            faults.extend((rounds.batch == Some(0)).then_some(ProfileError::Zero(name)));
        }
        faults
    }
}

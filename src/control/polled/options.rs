//! What a profile says about runs: how its loops look at them, and what they do with what they see.

use serde::{Deserialize, Serialize};

use crate::profile::ProfileError;
use dryrack_units::{SimDuration, text_form};

/// The flow of runs. In a profile that has it, a demand of several tasks, each on a node of its own (`gang: spread`),
/// is a run of that many nodes. Every node is placed, started and ended by itself, but they fail and are tried again
/// together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsOptions {
    pub loops: Loops,
    pub gang: GangRule,
    pub prepare: PrepareRule,
    pub begin: BeginRule,
    pub placeless: PlacelessRule,
    pub no_capacity: NoCapacityRule,
    /// Pauses before the first, second, ... submission after the one that failed. The last one repeats.
    pub pauses: Vec<Pause>,
    pub release: ReleaseRule,
    pub uncounted: UncountedRule,
    pub replica_retry: ReplicaRetryRule,
}

/// When records are looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loops {
    /// Whatever changes is looked at in the same instant, until nothing changes any more.
    Ideal,
    /// Each record is looked at once its interval has passed since the last look. Within one instant, submitted nodes
    /// come first, then running and terminating ones, then runs.
    Polled(PolledLoops),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolledLoops {
    pub submitted: SubmittedLoop,
    pub running: RunningLoop,
    pub terminating: TerminatingLoop,
    pub runs: RunsLoop,
}

/// When one loop comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// It looks for records at multiples of this.
    #[serde(with = "text_form")]
    pub every: SimDuration,
    /// Each round is later by a random time from zero to this.
    #[serde(with = "text_form")]
    pub jitter: SimDuration,
    /// Records looked at in one round; all that are due if absent.
    pub batch: Option<u32>,
}

/// The least time between two looks at one record. A record that is flagged is looked at in the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmittedLoop {
    pub rounds: Rounds,
    #[serde(with = "text_form")]
    pub interval: SimDuration,
    /// Whether a place is used in the look that finds it, or in the next.
    pub passes: Assignment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    OnePass,
    TwoPasses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningLoop {
    pub rounds: Rounds,
    /// For a node that is still to run.
    #[serde(with = "text_form")]
    pub starting: SimDuration,
    #[serde(with = "text_form")]
    pub running: SimDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminatingLoop {
    pub rounds: Rounds,
    #[serde(with = "text_form")]
    pub interval: SimDuration,
    /// Whether a node that has run is given up only in the second look, because its last words are asked for in the
    /// first.
    pub drains: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsLoop {
    pub rounds: Rounds,
    /// For a run that is submitted or terminating.
    #[serde(with = "text_form")]
    pub hasty: SimDuration,
    /// For every other run.
    #[serde(with = "text_form")]
    pub interval: SimDuration,
    /// Whether a look at a run counts as a look at each of its nodes, which then lose their turn.
    pub counts_for_nodes: bool,
}

/// How the nodes of a run get their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GangRule {
    /// All in one decision, or none.
    Whole,
    /// The master first, then each worker. A node that has a place keeps it while others are refused. Only a historic
    /// profile may have this.
    OneByOne,
}

/// When a node that has a place is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareRule {
    AtOnce,
    /// A node whose turn to begin comes later is not prepared before the others have begun (dstack 0.22.5).
    InTurn,
    /// No node is prepared before every node of the replica has a place (dstack 0.19.9 and 0.19.10).
    AllPlaced,
}

/// When a prepared node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeginRule {
    /// Once every node of the run has a place.
    AllPlaced,
    /// Once every node of the run is prepared; then all begin together.
    AllPrepared,
}

/// How a node that is to begin reacts to a node beside it that ended without ever having had a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlacelessRule {
    /// It waits, and its run notices what has become of the other.
    Waits,
    /// The look at it fails and keeps the lock on its record, so its run cannot be looked at either (dstack to
    /// 0.21.1, issue 4146). Only a historic profile may have this.
    Raises,
}

/// What happens to a node that finds no place, if it may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoCapacityRule {
    /// It waits where it is, and is looked at in its turn as soon as something has been given back.
    KeepsTurn,
    /// Its run pauses, longer each time, and is not in the queue meanwhile. A run that came later, or counts less,
    /// takes what is given back (dstack to 0.22.5, issue 4246).
    BacksOff,
}

/// How it is recorded that several nodes of one host give back what they hold in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseRule {
    Each,
    /// Each is subtracted from what was taken when the round began, so only the last one counts, and what the others
    /// held stays taken forever (dstack to 0.21.0, issue 4117). Only a historic profile may have this.
    LastOfRound,
}

/// When a replica that is tried again by itself is submitted again, while others of its run go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaRetryRule {
    /// Once its nodes have ended and the first pause is over.
    FirstPause,
    /// In the look at its run that sees that it failed, if it holds nothing; otherwise once it holds nothing. So it
    /// is submitted as often as its run is looked at, for as long as it finds no capacity (dstack to 0.22.5). Without
    /// loops, the same as `first_pause`.
    AtOnce,
}

/// How many replicas a service that scales is to have until its requests are counted for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncountedRule {
    /// As few as it may have.
    Fewest,
    /// One, whatever its bounds. A service that began with more is scaled down, and one that may have none begins one
    /// (dstack to 0.22.5, where the number of a run of which nothing is known is one). Only a historic profile may
    /// have this.
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pause(#[serde(with = "text_form")] pub SimDuration);

impl RunsOptions {
    /// The pause before the submission that follows this many failed ones, counted from 1.
    pub(super) fn pause(&self, attempt: u32) -> SimDuration {
        let index = (attempt as usize).saturating_sub(1).min(self.pauses.len() - 1);
        self.pauses[index].0
    }

    /// All errors in these options.
    pub(crate) fn faults(&self, historic: bool) -> Vec<ProfileError> {
        let mut faults = Vec::new();
        faults.extend(self.pauses.is_empty().then_some(ProfileError::Empty("runs.pauses")));
        let waits_in_circles = self.prepare == PrepareRule::InTurn && self.begin == BeginRule::AllPrepared;
        faults.extend(waits_in_circles.then_some(ProfileError::TurnsOfPrepared));
        let is_instant = |pause: &Pause| pause.0.is_zero();
        faults.extend(self.pauses.iter().any(is_instant).then_some(ProfileError::NoTime("runs.pauses")));
        if !historic {
            faults.extend(
                (self.gang == GangRule::OneByOne)
                    .then_some(ProfileError::HistoricOnly("flow.polled.gang", "one_by_one")),
            );
            faults.extend(
                (self.placeless == PlacelessRule::Raises)
                    .then_some(ProfileError::HistoricOnly("runs.placeless", "raises")),
            );
            faults.extend(
                (self.release == ReleaseRule::LastOfRound)
                    .then_some(ProfileError::HistoricOnly("runs.release", "last_of_round")),
            );
            faults.extend(
                (self.uncounted == UncountedRule::One).then_some(ProfileError::HistoricOnly("runs.uncounted", "one")),
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

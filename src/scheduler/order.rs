//! The keys that a queue can be ordered by. Each is one row of the table below: its name in profiles, a sentence about
//! it, and the number that it ranks an entry by, lowest first.

use serde::{Deserialize, Serialize};

use super::queue::{Entry, ascending};
use dryrack_units::{SimDuration, SimTime};

/// How a key ranks an entry.
enum Rank {
    /// Known as soon as the entry waits.
    Fixed(fn(&Entry) -> u64),
    /// The same, and it reads the estimate.
    FixedByEstimate(fn(&Entry) -> u64),
    /// Changes while the entry waits, so the order is computed again at each pass.
    Moving(fn(&Entry, &Moment<'_>) -> u64),
    /// The same, and it reads the estimate.
    MovingByEstimate(fn(&Entry, &Moment<'_>) -> u64),
}

/// What a moving rank reads besides the entry.
pub(super) struct Moment<'a> {
    pub now: SimTime,
    /// GPU time charged to each user, divided by the user's weight.
    pub charged: &'a [f64],
}

macro_rules! order_keys {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $text:literal, $rank:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum OrderKey {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl OrderKey {
            pub const ALL: &'static [OrderKey] = &[$(OrderKey::$variant,)*];

            /// The name in profiles.
            pub fn name(self) -> &'static str {
                match self { $(OrderKey::$variant => $name,)* }
            }

            /// Which jobs come first, in a few words.
            pub fn describe(self) -> &'static str {
                match self { $(OrderKey::$variant => $text,)* }
            }

            fn rank(self) -> Rank {
                match self { $(OrderKey::$variant => $rank,)* }
            }
        }
    };
}

order_keys! {
    /// Higher priority first. It comes before all other keys, wherever it is written, and has a field of its own.
    Priority => "priority", "higher priority first", Rank::Fixed(|_| 0);
    /// Earlier submission first.
    Submitted => "submitted", "earlier submission first", Rank::Fixed(|entry| entry.submitted);
    /// Shorter estimate first; jobs without an estimate last (shortest job first).
    Estimate => "estimate", "shorter by its estimate first",
        Rank::FixedByEstimate(|entry| entry.estimate.map_or(u64::MAX, SimDuration::as_nanos));
    /// Shortest remaining time first: the estimate, less the time that it has run with effect. Jobs without an estimate
    /// last.
    Remaining => "remaining", "shorter by what is left of its estimate first",
        Rank::FixedByEstimate(|entry| {
            entry.estimate.map_or(u64::MAX, |estimate| estimate.saturating_sub(entry.ran).as_nanos())
        });
    /// Less attained GPU time first, in queues divided by `levels`; within one queue by the next key (Tiresias: Gu and
    /// others, NSDI 2019, its discretized two-dimensional least attained service).
    Attained => "attained", "less GPU time had first, by levels", Rank::Fixed(|entry| u64::from(entry.level));
    /// Earlier arrival in its queue of `levels` first. A job that was preempted comes before all that wait there. A job
    /// that enters the queue while it runs comes after them (Tiresias' simulator, 959f9b0, `dlas_sim_jobs`).
    Joined => "joined", "who came to wait in its level first; who is stopped in it was there before",
        Rank::Fixed(|entry| entry.turn.cast_unsigned() ^ 1 << 63);
    /// Jobs whose user has used the least for its weight first (`fair_share`). Usage decays with time.
    FairShare => "fair_share", "whose user has had the least for its weight first",
        Rank::Moving(|entry, moment| ascending(moment.charged.get(entry.user as usize).copied().unwrap_or(0.0)));
    /// Fewer tasks first (smallest job first).
    Tasks => "tasks", "fewer tasks first", Rank::Fixed(|entry| u64::from(entry.tasks));
    /// F1: log10(estimate) * tasks + 870 * log10(submission), both in seconds (Carastan-Santos and de Camargo,
    /// *Obtaining Dynamic Scheduling Policies with Simulation and Machine Learning*, SC 2017). Submission is the time
    /// itself, so an order by it depends on where a trace has its zero.
    F1 => "f1", "F1 of Carastan-Santos and de Camargo",
        Rank::FixedByEstimate(|entry| {
            // Zero has no logarithm; the authors' program uses a tenth of a second instead.
            let positive = |value: f64| if value > 0.0 { value } else { 0.1 };
            let (estimate, submitted) = (positive(estimate_of(entry)), positive(submission_of(entry)));
            ascending(libm::log10(estimate) * f64::from(entry.tasks) + 870.0 * libm::log10(submitted))
        });
    /// WFP3: -(waited / estimate)^3 * tasks (Tang and others, *Fault-aware, utility-based job scheduling on Blue Gene/P
    /// systems*, Cluster 2009).
    Wfp3 => "wfp3", "WFP3 of Tang and others",
        Rank::MovingByEstimate(|entry, moment| {
            let waited = moment.now.since(entry.at).as_secs_f64();
            ascending(-libm::pow(waited / estimate_of(entry), 3.0) * f64::from(entry.tasks))
        });
    /// UNICEF: -waited / (log2(tasks) * estimate) (the same paper). One task, whose logarithm is 0, counts as two.
    Unicef => "unicef", "UNICEF of Tang and others",
        Rank::MovingByEstimate(|entry, moment| {
            let waited = moment.now.since(entry.at).as_secs_f64();
            ascending(-waited / (libm::log2(f64::from(entry.tasks).max(2.0)) * estimate_of(entry)))
        });
    /// What RLScheduler (cd433e3) calls WFP3: -(w / estimate)^3 * tasks, where w is not the time waited, as the paper
    /// above means it, but -1 - submission: the start time less the submission, and a waiting job's start time is -1.
    Wfp3Rlscheduler => "wfp3_rlscheduler", "what RLScheduler calls WFP3",
        Rank::FixedByEstimate(|entry| {
            ascending(-libm::pow(rlscheduler_wait(entry) / estimate_of(entry), 3.0) * f64::from(entry.tasks))
        });
    /// What RLScheduler (cd433e3) calls UNICEF: -w / (log2(tasks) * estimate), with the same w, and 1e-15 added to w
    /// and to the tasks.
    UnicefRlscheduler => "unicef_rlscheduler", "what RLScheduler calls UNICEF",
        Rank::FixedByEstimate(|entry| {
            let tasks = libm::log2(f64::from(entry.tasks) + 1e-15);
            ascending(-(rlscheduler_wait(entry) + 1e-15) / (tasks * estimate_of(entry)))
        });
}

/// In seconds; infinite without an estimate.
fn estimate_of(entry: &Entry) -> f64 {
    entry.estimate.map_or(f64::INFINITY, SimDuration::as_secs_f64)
}

/// In seconds.
fn submission_of(entry: &Entry) -> f64 {
    entry.at.as_nanos() as f64 / 1e9
}

fn rlscheduler_wait(entry: &Entry) -> f64 {
    -1.0 - submission_of(entry)
}

impl OrderKey {
    /// Whether the order of two waiting entries can change while they wait.
    pub fn moves(self) -> bool {
        matches!(self.rank(), Rank::Moving(_) | Rank::MovingByEstimate(_))
    }

    /// Whether it reads estimates.
    pub fn uses_estimate(self) -> bool {
        matches!(self.rank(), Rank::FixedByEstimate(_) | Rank::MovingByEstimate(_))
    }

    /// The rank of an entry as it begins to wait; 0 for a key that moves.
    pub(super) fn fixed_rank(self, entry: &Entry) -> u64 {
        match self.rank() {
            Rank::Fixed(rank) | Rank::FixedByEstimate(rank) => rank(entry),
            Rank::Moving(_) | Rank::MovingByEstimate(_) => 0,
        }
    }

    /// The rank of an entry at a moment.
    pub(super) fn rank_at(self, entry: &Entry, moment: &Moment<'_>) -> u64 {
        match self.rank() {
            Rank::Fixed(rank) | Rank::FixedByEstimate(rank) => rank(entry),
            Rank::Moving(rank) | Rank::MovingByEstimate(rank) => rank(entry, moment),
        }
    }
}

//! The keys by which a queue can be sorted. Each key is one row of the table below: its name in profiles, a short
//! description, and the number by which it ranks an entry. The lowest number comes first.

use super::entry::Entry;
use super::own::{OwnKey, WaitingView, order_named};
use super::stage_name::StageName;
use dryrack_units::{SimDuration, SimTime};

/// How a key ranks an entry.
enum Rank {
    /// The rank is known as soon as the entry waits.
    Fixed(fn(&Entry) -> u64),
    /// Like `Fixed`, but the rank also depends on the estimate.
    FixedByEstimate(fn(&Entry) -> u64),
    /// The rank changes while the entry waits, so the order is computed again at each pass.
    Moving(fn(&Entry, &Moment<'_>) -> u64),
    /// Like `Moving`, but the rank also depends on the estimate.
    MovingByEstimate(fn(&Entry, &Moment<'_>) -> u64),
    /// The rank comes from a custom key.
    Own(OwnKey),
}

/// What the rank of a moving key depends on besides the entry.
pub(super) struct Moment<'a> {
    pub now: SimTime,
    /// Number of pending replicas; 0 if no key reads it.
    pub pending: u32,
    /// GPU time charged to each user, divided by the user's weight.
    pub charged: &'a [f64],
}

macro_rules! order_keys {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $text:literal, $rank:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OrderKey {
            $($(#[$doc])* $variant,)*
            /// An expression, or a function that a program registered.
            Own(OwnKey),
        }

        impl OrderKey {
            /// All keys of the table.
            pub const ALL: &'static [OrderKey] = &[$(OrderKey::$variant,)*];
            const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The name of this key in profiles.
            pub fn name(self) -> &'static str {
                match self {
                    $(OrderKey::$variant => $name,)*
                    OrderKey::Own(own) => own.name(),
                }
            }

            /// A short description of the jobs that come first.
            pub fn describe(self) -> &'static str {
                match self {
                    $(OrderKey::$variant => $text,)*
                    OrderKey::Own(own) => own.text().unwrap_or("registered by the program"),
                }
            }

            fn rank(self) -> Rank {
                match self {
                    $(OrderKey::$variant => $rank,)*
                    OrderKey::Own(own) => Rank::Own(own),
                }
            }
        }
    };
}

order_keys! {
    /// Higher priority first. Priority counts before all other keys, even if the order lists it later, and has its own
    /// field.
    Priority => "priority", "higher priority first", Rank::Fixed(|_| 0);
    /// Earlier submission first.
    Submitted => "submitted", "earlier submission first", Rank::Fixed(|entry| entry.submitted);
    /// Shorter estimate first; jobs without an estimate last (shortest job first).
    Estimate => "estimate", "shorter estimate first",
        Rank::FixedByEstimate(|entry| entry.estimate.map_or(u64::MAX, SimDuration::as_nanos));
    /// Shortest remaining time first: the estimate minus the time that the job has run, without lost work. Jobs without
    /// an estimate last.
    Remaining => "remaining", "shorter remaining estimate first",
        Rank::FixedByEstimate(|entry| {
            entry.estimate.map_or(u64::MAX, |estimate| estimate.saturating_sub(entry.ran).as_nanos())
        });
    /// Less GPU time used first, in queues that are divided by `levels`. Within one queue, the next key decides
    /// (Tiresias: Gu and others, NSDI 2019, its discretized two-dimensional least attained service).
    Attained => "attained", "least GPU time received first, in levels", Rank::Fixed(|entry| u64::from(entry.level));
    /// Earlier arrival in its queue of `levels` first. A preempted job comes before all jobs that wait in the queue. A
    /// job that enters the queue while running comes after them (Tiresias' simulator, 959f9b0, `dlas_sim_jobs`).
    Joined => "joined", "preempted jobs first, then earlier arrival within the level",
        Rank::Fixed(|entry| entry.turn.cast_unsigned() ^ 1 << 63);
    /// Jobs of the user with the least usage relative to the user's weight first (`fair_share`). Old usage counts less.
    FairShare => "fair_share", "least GPU time received by the user, divided by the user's weight, first",
        Rank::Moving(|entry, moment| ascending(moment.charged.get(entry.user as usize).copied().unwrap_or(0.0)));
    /// Higher priority of Slurm's priority/multifactor first (`slurm.priority`).
    Multifactor => "multifactor", "higher priority of priority/multifactor first",
        Rank::Fixed(|entry| u64::from(u32::MAX - entry.multifactor));
    /// Fewer tasks first (smallest job first).
    Tasks => "tasks", "fewer tasks first", Rank::Fixed(|entry| u64::from(entry.tasks));
    /// F1: log10(estimate) * tasks + 870 * log10(submission), both in seconds (Carastan-Santos and de Camargo,
    /// *Obtaining Dynamic Scheduling Policies with Simulation and Machine Learning*, SC 2017). The submission is an
    /// absolute time, so this order depends on the time at which a trace begins.
    F1 => "f1", "F1 of Carastan-Santos and de Camargo",
        Rank::FixedByEstimate(|entry| {
            // Zero has no logarithm. The authors' program uses a tenth of a second in its place.
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
    /// UNICEF: -waited / (log2(tasks) * estimate), from the same paper. One task counts as two, because the logarithm
    /// of one is 0.
    Unicef => "unicef", "UNICEF of Tang and others",
        Rank::MovingByEstimate(|entry, moment| {
            let waited = moment.now.since(entry.at).as_secs_f64();
            ascending(-waited / (libm::log2(f64::from(entry.tasks).max(2.0)) * estimate_of(entry)))
        });
    /// The key that RLScheduler (cd433e3) calls WFP3: -(w / estimate)^3 * tasks. In the paper, w is the waiting time.
    /// In RLScheduler, w is the start time minus the submission, and the start time of a waiting job is -1. So w is -1
    /// minus the submission.
    Wfp3Rlscheduler => "wfp3_rlscheduler", "WFP3 as RLScheduler computes it",
        Rank::FixedByEstimate(|entry| {
            ascending(-libm::pow(rlscheduler_wait(entry) / estimate_of(entry), 3.0) * f64::from(entry.tasks))
        });
    /// The key that RLScheduler (cd433e3) calls UNICEF: -w / (log2(tasks) * estimate), with the same w. RLScheduler
    /// adds 1e-15 to w and to the number of tasks.
    UnicefRlscheduler => "unicef_rlscheduler", "UNICEF as RLScheduler computes it",
        Rank::FixedByEstimate(|entry| {
            let tasks = libm::log2(f64::from(entry.tasks) + 1e-15);
            ascending(-(rlscheduler_wait(entry) + 1e-15) / (tasks * estimate_of(entry)))
        });
}

/// The estimate in seconds; infinite if the job has none.
fn estimate_of(entry: &Entry) -> f64 {
    entry.estimate.map_or(f64::INFINITY, SimDuration::as_secs_f64)
}

/// The submission time in seconds.
fn submission_of(entry: &Entry) -> f64 {
    entry.at.as_nanos() as f64 / 1e9
}

fn rlscheduler_wait(entry: &Entry) -> f64 {
    -1.0 - submission_of(entry)
}

impl OrderKey {
    /// Whether the order of two waiting entries can change while they wait.
    pub fn moves(self) -> bool {
        match self.rank() {
            Rank::Moving(_) | Rank::MovingByEstimate(_) => true,
            Rank::Fixed(_) | Rank::FixedByEstimate(_) => false,
            Rank::Own(own) => own.moves(),
        }
    }

    /// Whether the order of two waiting entries can change because time passes, and not only because of what is charged
    /// or how many are pending.
    pub fn moves_with_time(self) -> bool {
        match self.rank() {
            Rank::Moving(_) | Rank::MovingByEstimate(_) => self != OrderKey::FairShare,
            Rank::Fixed(_) | Rank::FixedByEstimate(_) => false,
            Rank::Own(own) => own.surroundings().time,
        }
    }

    /// Whether the key reads estimates.
    pub fn uses_estimate(self) -> bool {
        match self.rank() {
            Rank::FixedByEstimate(_) | Rank::MovingByEstimate(_) => true,
            Rank::Fixed(_) | Rank::Moving(_) => false,
            Rank::Own(own) => own.reads_estimate(),
        }
    }

    /// The rank of an entry when it begins to wait; 0 for a key whose rank changes.
    pub(super) fn fixed_rank(self, entry: &Entry) -> u64 {
        match self.rank() {
            Rank::Fixed(rank) | Rank::FixedByEstimate(rank) => rank(entry),
            Rank::Own(own) if !own.moves() => ascending(own.rank(&WaitingView::new(entry.clone(), entry.at, 0))),
            Rank::Moving(_) | Rank::MovingByEstimate(_) | Rank::Own(_) => 0,
        }
    }

    /// The rank of an entry at this moment.
    pub(super) fn rank_at(self, entry: &Entry, moment: &Moment<'_>) -> u64 {
        match self.rank() {
            Rank::Fixed(rank) | Rank::FixedByEstimate(rank) => rank(entry),
            Rank::Moving(rank) | Rank::MovingByEstimate(rank) => rank(entry, moment),
            Rank::Own(own) => ascending(own.rank(&WaitingView::new(entry.clone(), moment.now, moment.pending))),
        }
    }
}

impl StageName for OrderKey {
    const NAMES: &'static [&'static str] = OrderKey::NAMES;

    fn named(name: &str) -> Option<OrderKey> {
        let known = OrderKey::ALL.iter().copied().find(|known| known.name() == name);
        known.or_else(|| order_named(name).map(OrderKey::Own))
    }
}

/// Maps a floating-point number to bits that sort in the same order. NaN comes last.
pub(super) fn ascending(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

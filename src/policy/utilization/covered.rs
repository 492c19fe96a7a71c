//! The default rule, which uses idle spells. The idle spell of a GPU is the longest sequence of idle readings that ends
//! with its newest reading.

use smallvec::SmallVec;

use super::ring::Ring;
use super::rule::Rule;
use dryrack_planted::planted;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{Coverage, Gaps, IdleGpus, UtilizationPolicy};

/// The idle spell of one GPU. `samples` is 0 if the newest reading that counts is not idle.
#[derive(Clone, Copy, Default)]
struct Spell {
    first: SimTime,
    last: SimTime,
    samples: u32,
}

pub(super) struct Covered {
    /// Readings before this time do not count.
    counts_from: SimTime,
    spells: Box<[Spell]>,
    /// The spells as they were before the oldest sample in the ring.
    before: Box<[Spell]>,
    /// For each GPU, the end of the last window for which the rule fired. A spell fires only once.
    fired: Box<[Option<SimTime>]>,
}

impl Covered {
    pub fn new(policy: &UtilizationPolicy, bound_at: SimTime, width: usize) -> Covered {
        Covered {
            counts_from: if planted!(GraceOfPolicyIsIgnored) {
                bound_at
            } else {
                bound_at.saturating_add(policy.grace)
            },
            spells: vec![Spell::default(); width].into(),
            before: vec![Spell::default(); width].into(),
            fired: vec![None; width].into(),
        }
    }

    /// The readings that cover the window, if there are any and the rule has not fired for them yet.
    fn coverage(&self, policy: &UtilizationPolicy) -> Option<Coverage> {
        let covers = |spell: &Spell| {
            let length = spell.last.checked_since(spell.first);
            let least =
                policy.time_window.saturating_add(SimDuration::from_nanos(planted!(WindowMustBeExceeded).into()));
            spell.samples > 0 && length.is_some_and(|length| length >= least)
        };
        let is_new = |gpu: usize, spell: &Spell| self.fired[gpu].is_none_or(|until| until < spell.first);
        match policy.gpus {
            IdleGpus::Any => {
                let mut of = self.spells.iter().enumerate();
                let (_, spell) = of.find(|(gpu, spell)| covers(spell) && is_new(*gpu, spell))?;
                let alike = |(_, other): &(usize, &Spell)| other.samples > 0 && is_same(other, spell);
                let gpus = self.spells.iter().enumerate().filter(alike).map(|(gpu, _)| gpu as u16).collect();
                Some(Coverage { gpus, first: spell.first, last: spell.last, samples: spell.samples })
            }
            IdleGpus::All => {
                let shared = self.spells.iter().copied().reduce(|one, other| Spell {
                    first: one.first.max(other.first),
                    last: one.last.min(other.last),
                    samples: one.samples.min(other.samples),
                })?;
                let gpus: SmallVec<[u16; 8]> = (0..self.spells.len() as u16).collect();
                (covers(&shared) && is_new(0, &shared)).then_some(Coverage {
                    gpus,
                    first: shared.first,
                    last: shared.last,
                    samples: shared.samples,
                })
            }
        }
    }
}

impl Rule for Covered {
    fn added(&mut self, policy: &UtilizationPolicy, ring: &Ring) {
        let index = ring.len() - 1;
        for (gpu, spell) in self.spells.iter_mut().enumerate() {
            read(spell, policy, self.counts_from, ring.time(index), ring.reading(index, gpu));
        }
    }

    fn inserted(&mut self, policy: &UtilizationPolicy, ring: &Ring, _place: usize) {
        self.spells.copy_from_slice(&self.before);
        for index in 0..ring.len() {
            for (gpu, spell) in self.spells.iter_mut().enumerate() {
                read(spell, policy, self.counts_from, ring.time(index), ring.reading(index, gpu));
            }
        }
    }

    fn drops_oldest(&mut self, policy: &UtilizationPolicy, ring: &Ring) {
        for (gpu, spell) in self.before.iter_mut().enumerate() {
            read(spell, policy, self.counts_from, ring.time(0), ring.reading(0, gpu));
        }
    }

    fn next(&self, policy: &UtilizationPolicy, _: &Ring, _: SimTime, now: SimTime) -> Option<(SimTime, Coverage)> {
        self.coverage(policy).map(|coverage| (now, coverage))
    }

    fn fired(&mut self, _ring: &Ring, coverage: &Coverage) {
        for gpu in &coverage.gpus {
            self.fired[usize::from(*gpu)] = Some(coverage.last);
        }
    }
}

fn is_same(one: &Spell, other: &Spell) -> bool {
    (one.first, one.last) == (other.first, other.last)
}

fn read(spell: &mut Spell, policy: &UtilizationPolicy, counts_from: SimTime, at: SimTime, reading: Option<Permille>) {
    let Some(reading) = reading.filter(|_| at >= counts_from) else { return };
    if !super::idle::is_idle(policy, reading) {
        spell.samples = 0;
        return;
    }
    let has_gap = policy.gaps == Gaps::Void && at.since(spell.last) > policy.longest_gap;
    let has_gap = has_gap && !planted!(GapCountsAsIdle);
    if spell.samples == 0 || has_gap {
        *spell = Spell { first: at, last: at, samples: 1 };
    } else {
        spell.last = at;
        spell.samples = spell.samples.saturating_add(1);
    }
}

//! How placements are decided, and what is remembered from one decision to the next.

use super::examined::Examined;
use dryrack_fleet::Fleet;
use dryrack_ids::AttemptId;
use dryrack_scheduler::{
    Caching, Decision, Grouping, PlacementContext, Rankings, Refusals, SchedulerOptions, decide_for,
};
use dryrack_workload::Demand;

/// How decisions are computed, and what is remembered from one decision to the next.
pub(crate) struct Deciding {
    /// Random seed for everything that the profile leaves to chance.
    pub seed: u64,
    pub grouping: Grouping,
    pub caching: Caching,
    pub rankings: Rankings,
    refusals: Refusals,
    /// Whether a placement can make room for another one. The options are asked only once.
    pub placing_makes_room: bool,
    /// Whether a custom stage may turn worse with each placement, or reads the time.
    pub has_unsteady_stages: bool,
    /// Decisions that are recorded for an explanation.
    pub examined: Examined,
}

impl Deciding {
    pub fn new(scheduler: &SchedulerOptions, seed: u64, grouping: Grouping) -> Deciding {
        let rankings = Rankings::new(scheduler);
        Deciding {
            seed,
            grouping,
            caching: Caching::On,
            rankings,
            refusals: Refusals::default(),
            placing_makes_room: scheduler.may_placing_make_room(),
            has_unsteady_stages: scheduler.has_unsteady_stages(),
            examined: Examined::default(),
        }
    }

    /// Forgets all results, because these options apply from now on.
    pub fn forget(&mut self, scheduler: &SchedulerOptions) {
        (self.rankings, self.refusals) = (Rankings::new(scheduler), Refusals::default());
        self.placing_makes_room = scheduler.may_placing_make_room();
        self.has_unsteady_stages = scheduler.has_unsteady_stages();
    }

    /// Decides about an attempt with the demand of this number. `keep` is the number of candidates to keep. A result
    /// that is remembered is the same as one that is computed.
    pub fn decide(
        &mut self,
        (scheduler, fleet): (&SchedulerOptions, &Fleet),
        (number, demand): (u32, &Demand),
        (attempt, context): (AttemptId, PlacementContext),
        keep: usize,
    ) -> Decision {
        let may_keep = match (self.caching, self.grouping) {
            (Caching::Off, _) | (_, Grouping::EachNode) => false,
            (Caching::On | Caching::Paranoid, Grouping::Classes) => keep == 1,
        };
        let grouping = self.grouping;
        let plain = || decide_for(scheduler, demand, context, fleet, grouping, keep);
        if !may_keep {
            return plain();
        }
        let ranked = self.rankings.decide(scheduler, (number, demand), fleet, context.draw);
        match ranked.or_else(|| self.refusals.still(number, fleet)) {
            Some(kept) if self.caching == Caching::Paranoid => {
                assert_eq!(kept, plain(), "{attempt}: what was kept is not what is computed");
                kept
            }
            Some(kept) => kept,
            None => {
                let decision = plain();
                self.refusals.keep(scheduler, (number, demand), fleet, &decision);
                decision
            }
        }
    }
}

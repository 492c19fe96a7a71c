//! Jobs that `sbatch` refuses because no node of their partition could ever run them. Measured with Slurm 22.05.8.
//!
//! A job is not refused if it names one partition, and this partition does not allow it or has too few nodes or cores. It
//! then waits ([`why_not_allowed`](super::cluster::Slurm::why_not_allowed)). Slurm tries the partitions of a job in several in
//! the order of their tiers. If the job could run in none, the answer for the last partition counts.

use std::cmp::Reverse;
use std::sync::Arc;

use super::cluster::{is_outside, requested};
use super::section::ReservedNodes;
use crate::core::Core;
use crate::flow::RefusedJob;
use crate::queue::Queue;
use dryrack_event::{Outcome, Reason, Refusal};
use dryrack_scheduler::slurm::demand_in;
use dryrack_scheduler::{NeverFits, evaluate, ever_fits};
use dryrack_workload::{Demand, JobSpec};

impl Queue {
    /// Why `sbatch` refuses a job ("Requested node configuration is not available"). `None` if it does not, or if the
    /// profile has no configuration of Slurm.
    pub(in crate::queue) fn refused_by_slurm(&mut self, core: &Core, spec: &JobSpec) -> Option<RefusedJob> {
        let slurm = self.slurm.as_mut()?;
        slurm.follow_fleet(core);
        let demand = self.demand_that_never_fits(core, spec)?;
        let (_, reasons) = evaluate(&core.profile.scheduler, &demand, &core.fleet, core.deciding.grouping);
        Some(RefusedJob {
            held: (Refusal::Never, reasons),
            outcome: Outcome::NeverFits,
            because: Reason::NeverFits,
            demand: Some(demand),
        })
    }

    /// The demand of a job on the nodes of its last partition, if it is refused.
    fn demand_that_never_fits(&self, core: &Core, spec: &JobSpec) -> Option<Arc<Demand>> {
        let (slurm, options) = (self.slurm.as_ref()?, &core.profile.scheduler);
        if options.never_fits != NeverFits::End || core.is_decided_outside() {
            return None;
        }
        // Slurm looks at the nodes of a reservation only while it lasts.
        if let Some(own) = slurm.reservation_of(core, spec) {
            let ReservedNodes { from, until, .. } = &slurm.reservations[own];
            if core.now < *from || core.now >= *until {
                return None;
            }
        }
        let mut sections = slurm.sections_of(spec);
        if let [section] = sections[..] {
            let is_refused =
                slurm.why_not_allowed(spec, section).is_none() && !ever_fits(options, &spec.demand, &core.fleet);
            return is_refused.then(|| Arc::clone(&spec.demand));
        }
        sections.sort_by_key(|section| Reverse(slurm.partitions[*section].options.priority_tier));
        let mut last = None;
        for section in sections {
            let partition = &slurm.partitions[section].options;
            last = None;
            if !is_outside(partition, requested(spec).nodes) {
                let demand = demand_in(&spec.demand, &partition.name);
                if ever_fits(options, &demand, &core.fleet) {
                    return None;
                }
                last = Some(Arc::new(demand));
            }
        }
        last
    }
}

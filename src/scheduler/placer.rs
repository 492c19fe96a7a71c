//! What each placer can do. A placer handles one kind of demand.

use smallvec::SmallVec;

use super::decision::{Candidate, Decision};
use super::finding::NodeFinding;
use super::node_class::Grouping;
use super::verdict::Verdict;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::Score;

/// Places one demand on a fleet.
pub trait Placer {
    /// The best candidates, best first. There is at least one. If none exists, returns the reasons, each with its
    /// number of nodes. Together the reasons cover every node.
    fn candidates(&self, grouping: Grouping, keep: usize) -> Result<SmallVec<[Candidate; 1]>, Histogram>;

    /// The best candidate, without reasons if there is none.
    fn place(&self, grouping: Grouping) -> Option<Candidate> {
        self.candidates(grouping, 1).ok().map(|mut candidates| candidates.swap_remove(0))
    }

    /// Whether the demand would fit if every node were ready, healthy and empty.
    fn ever_fits(&self) -> bool;

    /// Whether a placement that was decided earlier still passes every filter and still has room.
    fn still_fits(&self, placement: &Placement) -> bool;

    /// Explains each node, in order of ids: why it is refused, or why another node was preferred. `decision` must have
    /// every candidate.
    fn findings(&self, decision: &Decision) -> Vec<NodeFinding>;

    /// The verdict on this node if it were the only pick. The flag says whether a `Fit` also needs other nodes.
    fn select_node(&self, node: NodeId) -> (Verdict, bool);

    /// The verdict on this GPU if it were the only pick and had to be taken. The flag says whether a `Fit` also needs
    /// other GPUs.
    fn select_gpu(&self, gpu: GpuId) -> (Verdict, bool);

    /// Whether all these GPUs of one node could be taken, if they were the only pick. A task that takes several GPUs has
    /// the restricted cores of all of them.
    fn takes_together(&self, _gpus: &[GpuId]) -> bool {
        false
    }

    /// Whether the demand takes GPUs. Only then can GPUs be picked for it.
    fn takes_gpus(&self) -> bool;

    fn decide(&self, grouping: Grouping, keep: usize) -> Decision {
        match self.candidates(grouping, keep) {
            Ok(candidates) => Decision::Place(candidates),
            Err(reasons) => {
                let refusal = if self.ever_fits() { Refusal::Unfit } else { Refusal::Never };
                Decision::Refuse { refusal, reasons }
            }
        }
    }

    /// The decision with every candidate, for an explanation. The real decision may want only `_keep` candidates, and
    /// may draw one of several equal ones. In this case the drawn candidate comes first.
    fn decide_with_all(&self, _keep: usize) -> Decision {
        self.decide(Grouping::EachNode, usize::MAX)
    }

    /// The evaluation before submission: `None` and no reason if the demand fits.
    fn evaluate(&self, grouping: Grouping) -> (Option<Refusal>, Histogram) {
        match self.decide(grouping, 1) {
            Decision::Place(_) => (None, Histogram::default()),
            Decision::Refuse { refusal, reasons } => (Some(refusal), reasons),
        }
    }

    /// Why the demand is refused as soon as it is submitted; `None` if it is accepted. The refusal is
    /// [`Refusal::Never`] if an empty fleet would refuse the demand too.
    fn refused_at_submission(&self) -> Option<(Refusal, Reason)> {
        None
    }

    /// The scores of the current places of the demand's replicas, on the fleet with all its claims.
    fn placement_scores(&self, placements: &[&Placement]) -> Vec<Score> {
        vec![Score::ZERO; placements.len()]
    }
}

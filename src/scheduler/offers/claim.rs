//! What a node of a job takes of the host of an offer.

use smallvec::SmallVec;

use super::offer::{Assigned, Network, Offer};
use super::options::{NetworkHost, OfferOptions, PinsRegion};
use dryrack_fleet::{Fleet, NodeClaim};
use dryrack_ids::NodeId;

/// Assigns the lowest idle blocks of the host, with all their resources.
pub fn assigned(options: &OfferOptions, offer: Offer, fleet: &Fleet) -> Assigned {
    let network = match options.network_host_when {
        NetworkHost::Unsplit => offer.total_blocks == 1,
        NetworkHost::AllBlocks => offer.slice.blocks == offer.total_blocks,
    };
    Assigned {
        claim: claim(fleet, offer.node, offer.slice.blocks),
        network: if network { Network::Host } else { Network::Bridge },
        offer,
    }
}

pub fn claim(fleet: &Fleet, node: NodeId, blocks: u32) -> NodeClaim {
    let known = fleet.node(node);
    let blocks: SmallVec<[u16; 4]> = known.status.idle_blocks(&known.shape).take(blocks as usize).collect();
    let cut = known.shape.cut(&blocks).expect("only an instance that is split has an offer");
    NodeClaim { node, tasks: 1, cpu: cut.cpu, ram: cut.ram, gpus: cut.gpus, blocks, sets: None }
}

/// Whether a host of this kind may be used only in the backend and region of the first node. `is_split` says whether
/// the host is split.
pub fn is_pinned(rule: PinsRegion, is_split: bool) -> bool {
    match rule {
        PinsRegion::Always => true,
        PinsRegion::UnsplitHosts => !is_split,
    }
}

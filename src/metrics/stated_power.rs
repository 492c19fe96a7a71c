//! Of which part of the nodes the energy is known.

use super::account::RunAccount;

impl RunAccount {
    /// The part of the node hours during which nodes state their power, if it is neither none nor all: the energy and the emissions
    /// are then those of these nodes only.
    pub fn partial_power(&self) -> Option<f64> {
        let hours = |is_stated: bool| -> u128 {
            let nodes = self.nodes.iter().filter(|node| node.spec.shape.power.is_some() == is_stated);
            nodes.map(|node| node.there_ns).sum()
        };
        let (stated, unstated) = (hours(true), hours(false));
        let is_partial = stated > 0 && unstated > 0;
        is_partial.then(|| stated as f64 / (stated + unstated) as f64)
    }
}

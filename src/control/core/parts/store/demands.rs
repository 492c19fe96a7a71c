//! The demands of all jobs, by number. Jobs with equal demands share one record.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::records::Held;
use dryrack_workload::Demand;

/// A demand. Jobs with equal demands share one record.
pub struct DemandRecord {
    pub demand: Arc<Demand>,
    /// The last refusal of this demand.
    pub held: Option<Held>,
    /// The fleet's growth when a polled or scanned flow last refused this demand.
    pub refused_at: Option<u64>,
}

/// The demands of all jobs, by number.
#[derive(Default)]
pub struct Demands {
    records: Vec<DemandRecord>,
    numbers: HashMap<Arc<Demand>, u32, foldhash::fast::FixedState>,
    /// Numbers by memory address. Most jobs share a demand that is already known, and the address finds it fastest.
    by_address: HashMap<*const Demand, u32, foldhash::fast::FixedState>,
}

impl Demands {
    /// The number of a demand. A demand that is not known yet gets the next number.
    pub fn number(&mut self, demand: &Arc<Demand>) -> u32 {
        // The answer for a model depends on the job of the replica, so deployments share no record.
        if demand.model().is_none() {
            let known = self.by_address.get(&Arc::as_ptr(demand)).or_else(|| self.numbers.get(demand));
            if let Some(number) = known {
                return *number;
            }
        }
        let number = self.records.len() as u32;
        self.numbers.insert(Arc::clone(demand), number);
        // The record below keeps the demand in memory, so its address cannot be used for another demand.
        self.by_address.insert(Arc::as_ptr(demand), number);
        self.records.push(DemandRecord { demand: Arc::clone(demand), held: None, refused_at: None });
        number
    }

    /// The demand, in the memory of the last equal one.
    pub fn shared(&self, demand: Arc<Demand>) -> Arc<Demand> {
        self.numbers.get(&demand).map_or(demand, |number| Arc::clone(&self.records[*number as usize].demand))
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut DemandRecord> {
        self.records.iter_mut()
    }
}

impl Index<usize> for Demands {
    type Output = DemandRecord;

    fn index(&self, number: usize) -> &DemandRecord {
        &self.records[number]
    }
}

impl IndexMut<usize> for Demands {
    fn index_mut(&mut self, number: usize) -> &mut DemandRecord {
        &mut self.records[number]
    }
}

//! Samples the devices of one attempt at each multiple of an interval since the attempt started.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::super::shares::Shares;
use super::devices::Devices;
use dryrack_fleet::Placement;
use dryrack_ids::GpuId;
use dryrack_units::{MilliCpu, Permille, SimDuration, SimTime};

pub struct Sampler {
    started: SimTime,
    interval: SimDuration,
    due: SimTime,
    /// The time of the last poll, and the CPU time used of each device up to then.
    last: SimTime,
    used: Vec<SimDuration>,
}

fn gpus(placement: &Placement) -> impl Iterator<Item = GpuId> + '_ {
    let claims = placement.claims().iter();
    claims.flat_map(|claim| claim.gpus.iter().map(|part| GpuId { node: claim.node, index: part.index }))
}

impl Sampler {
    pub fn new(started: SimTime, interval: SimDuration, placement: &Placement, devices: &Devices) -> Sampler {
        let used = gpus(placement).map(|gpu| devices.used(gpu)).collect();
        Sampler { started, interval, due: started.saturating_add(interval), last: started, used }
    }

    pub fn due(&self) -> SimTime {
        self.due
    }

    /// One reading for each device: the share of it that was used since the last poll. A late poll gives one reading,
    /// and missed polls give none. For a real GPU, the reading is the driver's current value in `levels`, by index.
    pub fn take(
        &mut self,
        now: SimTime,
        placement: &Placement,
        shares: &Shares,
        devices: &Devices,
        levels: &BTreeMap<u16, Permille>,
    ) -> SmallVec<[Option<Permille>; 8]> {
        let length = now.since(self.last);
        let read = |(gpu, before): (GpuId, &mut SimDuration)| {
            let used = devices.used(gpu);
            let more = used.saturating_sub(std::mem::replace(before, used));
            match shares.get(gpu) {
                Some(share) => utilization(more, length, share.cpu),
                None if shares.has(gpu.node) => None,
                None => levels.get(&gpu.index).copied(),
            }
        };
        let found = gpus(placement).zip(&mut self.used).map(read).collect();
        self.last = now;
        let rounds = now.since(self.started).as_nanos() / self.interval.as_nanos().max(1);
        self.due = self.started.saturating_add(self.interval.saturating_mul(rounds + 1));
        found
    }
}

/// CPU time as a share of the time that `cpu` could have delivered, in thousandths, rounded down, at most 1000. `None`
/// if no time has passed.
fn utilization(used: SimDuration, length: SimDuration, cpu: MilliCpu) -> Option<Permille> {
    let whole = u128::from(length.as_nanos()) * u128::from(cpu.get()) / 1000;
    let permille = (u128::from(used.as_nanos()) * 1000).checked_div(whole)?;
    Some(Permille::new(permille.min(1000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_used_as_much_as_cpu_time_was_taken_of_what_it_promises() {
        let second = SimDuration::from_secs(1);
        let rows = [
            ("half of one core for a second", 500, second, 1000, Some(500)),
            ("half a core is all of a share of half a core", 500, second, 500, Some(1000)),
            ("one core of two", 1000, second, 2000, Some(500)),
            ("more than was promised is all of it", 1500, second, 1000, Some(1000)),
            ("nothing", 0, second, 1000, Some(0)),
            ("no time", 10, SimDuration::ZERO, 1000, None),
        ];
        for (sentence, millis, length, cpu, wanted) in rows {
            let found = utilization(SimDuration::from_millis(millis), length, MilliCpu::new(cpu));
            assert_eq!(found, wanted.map(Permille::new), "{sentence}");
        }
    }
}

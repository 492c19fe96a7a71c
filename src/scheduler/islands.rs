//! Whole GPUs in NVLink islands: GPUs of one task should be in one island, if an island has enough of them.
//!
//! All tasks of a run on a node first try one island. Among the islands that can hold all of them, the one with the
//! fewest free GPUs is taken, so larger islands stay whole. On a tie, the first island by index is taken. If no island
//! can hold all tasks, each task is placed separately. A task that fits in no island takes the islands with the most
//! free GPUs, as few as possible. Degraded GPUs are taken only if the node has too few others.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::claimable;
use super::node_class::NodeClass;
use dryrack_fleet::{GpuClaim, GpuState, Islands};
use dryrack_workload::{GpuTake, TaskGroup};

/// Claims, grouped by island.
type Rooms = SmallVec<[SmallVec<[GpuClaim; 8]>; 4]>;

/// Scores a node by the number of islands that a task would use. Fewer islands are better. On equal numbers, fewer free
/// GPUs left in these islands are better. The score is 1 if the task fills one island, between 0 and 1 if it takes part
/// of one, 0 if it fills two, and so on. A task that takes no whole GPUs scores 0.
pub fn score(demand: TaskGroup<'_>, class: &NodeClass) -> f64 {
    let each = class.gpus_per_task(demand) as usize;
    let is_whole = demand.task.gpus.as_ref().is_some_and(|gpus| gpus.take == GpuTake::Whole);
    if !is_whole || each == 0 {
        return 0.0;
    }
    let rooms = rooms(&class.shape.islands(), claimable::claimable(demand, class));
    let chosen = choose(&rooms, each);
    let free: usize = chosen.iter().map(|island| rooms[*island].len()).sum();
    if free < each {
        return 0.0;
    }
    1.0 + each as f64 / free as f64 - chosen.len() as f64
}

/// Chooses the claims for `tasks` tasks of `each` GPUs from these claims on free GPUs. The input is sorted by index and
/// must hold enough claims.
pub fn take(class: &NodeClass, free: SmallVec<[GpuClaim; 8]>, tasks: usize, each: usize) -> SmallVec<[GpuClaim; 8]> {
    let is_sound = |claim: &GpuClaim| class.status.gpus[usize::from(claim.index)].state != GpuState::Degraded;
    let sound: SmallVec<[GpuClaim; 8]> = free.iter().copied().filter(is_sound).collect();
    let free = if sound.len() >= tasks * each { sound } else { free };
    let mut rooms = rooms(&class.shape.islands(), free);
    let mut taken: SmallVec<[GpuClaim; 8]> = SmallVec::new();
    let whole = choose(&rooms, tasks * each);
    let (times, wanted) = if whole.len() == 1 { (1, tasks * each) } else { (tasks, each) };
    for _ in 0..times {
        let mut left = wanted;
        for island in choose(&rooms, wanted) {
            let room = &mut rooms[island];
            // GPUs that are not degraded come first. Both kinds are in order of index.
            room.sort_by_key(|claim| (!is_sound(claim), claim.index));
            let count = left.min(room.len());
            taken.extend(room.drain(..count));
            left -= count;
        }
    }
    taken.sort_unstable_by_key(|claim| claim.index);
    taken
}

fn rooms(islands: &Islands, free: SmallVec<[GpuClaim; 8]>) -> Rooms {
    let mut rooms: Rooms = SmallVec::new();
    let mut end = 0;
    for size in islands {
        let from = end;
        end += size;
        rooms.push(free.iter().copied().filter(|claim| (from..end).contains(&claim.index)).collect());
    }
    rooms
}

/// The islands from which this many GPUs are taken.
fn choose(rooms: &Rooms, wanted: usize) -> SmallVec<[usize; 4]> {
    let holds = (0..rooms.len()).filter(|island| rooms[*island].len() >= wanted);
    if let Some(one) = holds.min_by_key(|island| (rooms[*island].len(), *island)) {
        return SmallVec::from_slice(&[one]);
    }
    let mut order: SmallVec<[usize; 4]> = (0..rooms.len()).collect();
    order.sort_by_key(|island| (Reverse(rooms[*island].len()), *island));
    let mut held = 0;
    let enough = order.iter().position(|island| {
        held += rooms[*island].len();
        held >= wanted
    });
    order.truncate(enough.map_or(order.len(), |last| last + 1));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::{Bytes, GpuShare};

    fn free(indexes: &[u16]) -> SmallVec<[GpuClaim; 8]> {
        indexes.iter().map(|index| GpuClaim { index: *index, share: GpuShare::WHOLE, memory: Bytes::ZERO }).collect()
    }

    /// Islands of 4, 2 and 2 GPUs.
    #[test]
    fn the_smallest_room_that_holds_it_is_chosen_or_else_the_largest_rooms() {
        let islands: Islands = SmallVec::from_slice(&[4, 2, 2]);
        let chosen = |indexes: &[u16], wanted| choose(&rooms(&islands, free(indexes)), wanted).to_vec();
        assert_eq!(chosen(&[0, 1, 2, 4, 5, 6], 2), [1]);
        assert_eq!(chosen(&[0, 1, 2, 4, 5, 6], 1), [2]);
        assert_eq!(chosen(&[0, 1, 2, 3, 4, 5], 3), [0]);
        assert_eq!(chosen(&[0, 1, 4, 6, 7], 3), [0, 2]);
        assert_eq!(chosen(&[0, 4, 6], 3), [0, 1, 2]);
    }
}

//! Finds the processes of a task in a snapshot of all processes.

use std::collections::{BTreeMap, BTreeSet};

use super::super::procfs::{ProcessKey, ProcessStat};

/// All processes of the group, all known processes that still exist, and all their descendants. The leader of the group
/// must not be reaped yet: until then no other process can have the group's number.
pub fn members(all: &[ProcessStat], group: u32, known: &BTreeSet<ProcessKey>) -> BTreeMap<ProcessKey, ProcessStat> {
    let mut found: BTreeMap<ProcessKey, ProcessStat> = BTreeMap::new();
    let mut pids: BTreeSet<u32> = BTreeSet::new();
    loop {
        let before = found.len();
        for stat in all.iter().filter(|stat| !found.contains_key(&stat.key)).copied().collect::<Vec<_>>() {
            if stat.group == group || known.contains(&stat.key) || pids.contains(&stat.parent) {
                found.insert(stat.key, stat);
                pids.insert(stat.key.pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::SimDuration;

    fn stat(pid: u32, parent: u32, group: u32) -> ProcessStat {
        let key = ProcessKey { pid, started: u64::from(pid) };
        let (cpu, cpu_of_reaped) = (SimDuration::ZERO, SimDuration::ZERO);
        ProcessStat { key, parent, group, is_zombie: false, cpu, cpu_of_reaped }
    }

    #[test]
    fn a_family_is_its_group_and_the_children_of_those_who_left_it_and_who_was_known_before() {
        // Process 10 leads group 10, and 11 is in it. 12 left it for its own group and has a child 13. 14 was a child
        // of 12 until its parent died. 20 is unrelated. 15 is unrelated too, although it has the number of a process
        // that was known.
        let all = [
            stat(1, 0, 1),
            stat(10, 1, 10),
            stat(11, 10, 10),
            stat(12, 11, 12),
            stat(13, 12, 12),
            stat(14, 1, 12),
            stat(15, 1, 15),
            stat(20, 1, 20),
        ];
        let known = [ProcessKey { pid: 14, started: 14 }, ProcessKey { pid: 15, started: 3 }].into();
        let found: Vec<u32> = members(&all, 10, &known).keys().map(|key| key.pid).collect();
        assert_eq!(found, [10, 11, 12, 13, 14]);
    }
}

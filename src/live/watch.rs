//! Applies a utilization policy to real usage, but takes no action. It reports when the policy would fire, and which
//! part of its window had samples.

use std::collections::BTreeMap;

use super::clock::Stamp;
use super::columns::{Cell, Column, nothing};
use super::probe::{Missing, Snapshot};
use dryrack_policy::{Sample, UtilizationMonitor};
use dryrack_units::{Permille, SimTime};
use dryrack_workload::{Coverage, SampleFault, UtilizationPolicy};

/// The grouping of GPUs. Each group is judged together, like the GPUs of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuGrouping {
    /// Each GPU by itself.
    Gpu,
    /// All GPUs of a node.
    Node,
    /// All GPUs that one pod or job held when they were first seen. A GPU without a holder is judged by itself.
    Holder,
}

/// A moment at which the policy would have fired.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    pub subject: String,
    /// The columns of the group, in the order in which the coverage numbers them.
    pub columns: Vec<String>,
    pub covered: Coverage,
    pub at: Stamp,
}

struct Subject {
    name: String,
    columns: Vec<usize>,
    monitor: UtilizationMonitor,
}

pub struct Watch {
    columns: Vec<Column>,
    subjects: Vec<Subject>,
    /// The number of missing readings, by the name of the reason.
    pub missing: BTreeMap<&'static str, u64>,
    pub odd: [u64; SampleFault::ALL.len()],
    pub readings: u64,
}

impl Watch {
    /// Begins with the first poll, which determines the columns.
    pub fn begin(policy: UtilizationPolicy, together: GpuGrouping, snapshot: &Snapshot, at: Stamp) -> Watch {
        let columns = Column::all(snapshot);
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            let name = match together {
                GpuGrouping::Gpu => column.name.clone(),
                GpuGrouping::Node => column.node.clone(),
                GpuGrouping::Holder => column.holder.clone().unwrap_or_else(|| column.name.clone()),
            };
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(index),
                None => groups.push((name, vec![index])),
            }
        }
        let subject = |(name, columns): (String, Vec<usize>)| {
            let width = u16::try_from(columns.len()).unwrap_or(u16::MAX);
            Subject { name, monitor: UtilizationMonitor::bind(policy, width, at.at()), columns }
        };
        let subjects = groups.into_iter().map(subject).collect();
        Watch { columns, subjects, missing: BTreeMap::new(), odd: [0; SampleFault::ALL.len()], readings: 0 }
    }

    pub fn subjects(&self) -> usize {
        self.subjects.len()
    }

    /// Takes a poll that was requested at `asked` and received at `now`. Returns the rules that would have fired by
    /// now.
    pub fn take_snapshot(&mut self, snapshot: &Result<Snapshot, Missing>, asked: Stamp, now: Stamp) -> Vec<Fired> {
        let cells: Vec<Cell> = match snapshot {
            Ok(snapshot) => self.columns.iter().map(|column| column.read(snapshot)).collect(),
            Err(why) => self.columns.iter().map(|_| nothing(why)).collect(),
        };
        for cell in &cells {
            match &cell.utilization {
                Ok(_) => self.readings += 1,
                Err(why) => *self.missing.entry(why.name()).or_default() += 1,
            }
        }
        let mut fired = Vec::new();
        for subject in &mut self.subjects {
            // A rule may become due between two samples.
            let before = subject.monitor.next(now.at()).filter(|due| *due < asked.at());
            let early = before.and_then(|due| subject.monitor.fire(due));
            let utilization: Vec<Option<Permille>> =
                subject.columns.iter().map(|index| cells[*index].utilization.clone().ok()).collect();
            let memory_entries = utilization.len();
            let sample = Sample { at: asked.at(), utilization: &utilization, memory_entries };
            let heard: SimTime = now.at();
            if let Some(fault) = subject.monitor.observe(heard, &sample) {
                self.odd[fault as usize] += 1;
            }
            let covered = early.or_else(|| subject.monitor.fire(heard));
            fired.extend(covered.map(|covered| Fired {
                subject: subject.name.clone(),
                columns: subject.columns.iter().map(|index| self.columns[*index].name.clone()).collect(),
                covered,
                at: now,
            }));
        }
        fired
    }
}

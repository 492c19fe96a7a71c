//! The monitor of one attempt under a utilization policy.

use dryrack_policy::UtilizationMonitor;
use dryrack_units::SimTime;
use dryrack_workload::SampleFault;

/// The monitor of one attempt.
pub struct Watch {
    pub monitor: UtilizationMonitor,
    /// When the monitor must be checked next even if no sample arrives.
    pub check_at: Option<SimTime>,
    /// For each kind of sample fault, whether it was reported for this attempt.
    reported: [bool; SampleFault::ALL.len()],
}

impl Watch {
    pub fn new(monitor: UtilizationMonitor) -> Watch {
        Watch { monitor, check_at: None, reported: [false; SampleFault::ALL.len()] }
    }

    /// Whether this fault must be reported. Each kind is reported once.
    pub fn is_first(&mut self, fault: SampleFault) -> bool {
        !std::mem::replace(&mut self.reported[fault as usize], true)
    }
}

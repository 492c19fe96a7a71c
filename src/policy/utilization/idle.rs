//! Whether one reading is idle.

use dryrack_planted::planted;
use dryrack_units::Permille;
use dryrack_workload::{AtMinimum, UtilizationPolicy};

pub(super) fn is_idle(policy: &UtilizationPolicy, reading: Permille) -> bool {
    match policy.at_minimum {
        AtMinimum::Busy if planted!(MinimumIsIdle) => reading <= policy.min_gpu_utilization,
        AtMinimum::Busy => reading < policy.min_gpu_utilization,
        AtMinimum::Idle => reading <= policy.min_gpu_utilization,
    }
}

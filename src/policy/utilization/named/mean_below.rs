//! The mean utilization of a GPU over the window is below the minimum.

use super::super::window::Window;
use dryrack_workload::IdleGpus;

/// With `gpus: any`, one GPU with a low mean is enough. With `gpus: all`, every GPU must have one. Samples in which a
/// GPU could not be read do not count for its mean. A GPU without any reading has no mean.
pub fn holds(window: &Window<'_>) -> bool {
    let minimum = u64::from(window.policy().min_gpu_utilization.get());
    let is_low = |gpu| {
        let (mut sum, mut count) = (0, 0);
        for reading in window.readings(gpu).flatten() {
            (sum, count) = (sum + u64::from(reading.get()), count + 1);
        }
        sum < minimum * count
    };
    match window.policy().gpus {
        IdleGpus::Any => (0..window.gpus()).any(is_low),
        IdleGpus::All => window.gpus() > 0 && (0..window.gpus()).all(is_low),
    }
}

//! NVIDIA GPUs through NVML, the library that nvidia-smi itself uses. The library is loaded at the first poll. So
//! dryrack also runs on a machine without a driver, and reports its absence.

use nvml_wrapper::Nvml as Library;
use nvml_wrapper::device::Device;
use nvml_wrapper::error::NvmlError;

use super::missing::{Missing, shown};
use super::snapshot::{GpuSnapshot, NodeSnapshot, Snapshot};
use super::{Probe, number};
use crate::clock::{Clock, Deadline};
use dryrack_catalog::{ComputeCapability, Vendor};
use dryrack_units::Bytes;

const WHAT: &str = "NVML";

#[derive(Default)]
pub struct Nvml {
    library: Option<Library>,
}

impl Probe for Nvml {
    fn source(&self) -> String {
        WHAT.to_string()
    }

    /// This call cannot be stopped if the driver hangs: see [`super::Guarded`].
    fn poll(&mut self, clock: &Clock, _: Deadline) -> Result<Snapshot, Missing> {
        if self.library.is_none() {
            self.library = Some(Library::init().map_err(missing)?);
        }
        let Some(library) = &self.library else { return Err(Missing::NotInstalled { what: WHAT.to_string() }) };
        let mut node = NodeSnapshot::named("", clock.now(), WHAT);
        node.driver = library.sys_driver_version().ok();
        for index in 0..library.device_count().map_err(missing)? {
            node.gpus.push(match library.device_by_index(index) {
                Ok(device) => gpu(&device, index, clock),
                Err(error) => lost(index, clock, missing(error)),
            });
        }
        if node.gpus.is_empty() {
            return Err(Missing::NoDriver { what: WHAT.to_string(), said: "no GPU was listed".to_string() });
        }
        Ok(Snapshot { nodes: vec![node], notes: Vec::new() })
    }
}

fn gpu(device: &Device<'_>, index: u32, clock: &Clock) -> GpuSnapshot {
    let mut gpu = GpuSnapshot::numbered(index, clock.now(), WHAT);
    gpu.vendor = Some(Vendor::Nvidia);
    gpu.uuid = device.uuid().ok();
    gpu.name = device.name().map_err(missing);
    // NVML reports bytes. Memory that the driver reserves is reported separately; it counts as neither used nor free.
    let memory = device.memory_info().map_err(missing);
    gpu.memory = memory.clone().map(|memory| Bytes::new(memory.total));
    gpu.memory_used = memory.map(|memory| Bytes::new(memory.used));
    let rates = device.utilization_rates().map_err(missing);
    gpu.utilization = rates.and_then(|rates| number::percent(f64::from(rates.gpu)));
    gpu.compute_capability = device.cuda_compute_capability().ok().and_then(|found| {
        Some(ComputeCapability { major: u8::try_from(found.major).ok()?, minor: u8::try_from(found.minor).ok()? })
    });
    gpu
}

/// A GPU that is counted but does not answer, for example because it has fallen off the bus.
fn lost(index: u32, clock: &Clock, why: Missing) -> GpuSnapshot {
    let mut gpu = GpuSnapshot::numbered(index, clock.now(), WHAT);
    gpu.vendor = Some(Vendor::Nvidia);
    gpu.state = dryrack_fleet::GpuState::Failed;
    for missing in [&mut gpu.memory, &mut gpu.memory_used] {
        *missing = Err(why.clone());
    }
    (gpu.name, gpu.utilization) = (Err(why.clone()), Err(why));
    gpu
}

fn missing(error: NvmlError) -> Missing {
    let what = WHAT.to_string();
    match error {
        NvmlError::LibloadingError(_) => Missing::NotInstalled { what: "NVML (libnvidia-ml.so.1)".to_string() },
        NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch | NvmlError::LibraryNotFound => {
            Missing::NoDriver { what, said: shown(&error.to_string()) }
        }
        NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) => Missing::NotSupported,
        NvmlError::NoPermission => Missing::NotPermitted { what },
        NvmlError::GpuLost => Missing::Vanished,
        NvmlError::Unknown | NvmlError::ResetRequired => Missing::UnknownError,
        other => Missing::Unreadable { what, said: shown(&other.to_string()) },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A machine with a driver lists GPUs, and any other machine gives a reason. The test accepts both, and fails only
    /// on a panic.
    #[test]
    fn a_machine_without_a_driver_says_so() {
        let snapshot = Nvml::default().poll(&Clock::start(), Deadline::within(Duration::from_secs(5)));
        match snapshot {
            Ok(snapshot) => assert!(!snapshot.nodes[0].gpus.is_empty()),
            Err(missing) => assert!(matches!(missing.name(), "not_installed" | "no_driver"), "{missing}"),
        }
    }
}

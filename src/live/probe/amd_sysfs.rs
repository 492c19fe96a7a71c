//! AMD GPUs as the amdgpu driver reports them in sysfs. This needs no program or library of the vendor.
//!
//! The folder `class/drm/cardN/device/` holds these files (kernel documentation, gpu/amdgpu): `gpu_busy_percent`,
//! `mem_info_vram_total` and `mem_info_vram_used` in bytes, `unique_id`, `product_name` if the board has one, and
//! `vendor`, which is 0x1002.

use std::fs;
use std::path::{Path, PathBuf};

use super::missing::{Missing, shown};
use super::snapshot::{GpuSnapshot, NodeSnapshot, Reading, Snapshot};
use super::{Probe, number};
use crate::clock::{Clock, Deadline};
use dryrack_catalog::Vendor;

const AMD: &str = "0x1002";

pub struct AmdSysfs {
    sys: PathBuf,
}

impl AmdSysfs {
    /// A probe of the sysfs at this path, normally `/sys`.
    pub fn new(sys: impl Into<PathBuf>) -> AmdSysfs {
        AmdSysfs { sys: sys.into() }
    }
}

impl Probe for AmdSysfs {
    fn source(&self) -> String {
        self.sys.join("class/drm").display().to_string()
    }

    fn poll(&mut self, clock: &Clock, _: Deadline) -> Result<Snapshot, Missing> {
        let (what, folder) = (self.source(), self.sys.join("class/drm"));
        let entries = fs::read_dir(&folder).map_err(|error| Missing::of_file(&folder, &error))?;
        let mut cards: Vec<(u32, PathBuf)> = entries
            .flatten()
            // Skip connectors, which have names such as `card0-DP-1`.
            .filter_map(|entry| Some((entry.file_name().to_str()?.strip_prefix("card")?.parse().ok()?, entry.path())))
            .collect();
        cards.sort_unstable();
        let mut node = NodeSnapshot::named("", clock.now(), &what);
        for (_, card) in cards {
            let device = card.join("device");
            if line(&device.join("vendor")).ok().as_deref() == Some(AMD) {
                let index = node.gpus.len() as u32;
                node.gpus.push(gpu(&device, index, clock, &what));
            }
        }
        if node.gpus.is_empty() {
            return Err(Missing::NoDriver { what, said: "no AMD card was found".to_string() });
        }
        Ok(Snapshot { nodes: vec![node], notes: Vec::new() })
    }
}

fn gpu(device: &Path, index: u32, clock: &Clock, what: &str) -> GpuSnapshot {
    let mut gpu = GpuSnapshot::numbered(index, clock.now(), what);
    let figure = |file: &str| {
        let path = device.join(file);
        number::number(&line(&path)?, &path.display().to_string(), 1)
    };
    gpu.vendor = Some(Vendor::Amd);
    gpu.uuid = line(&device.join("unique_id")).ok().filter(|id| !id.is_empty());
    gpu.name =
        line(&device.join("product_name")).ok().filter(|name| !name.is_empty()).ok_or_else(|| Missing::unsaid(what));
    gpu.memory = figure("mem_info_vram_total").and_then(|bytes| number::memory(bytes, 1));
    gpu.memory_used = figure("mem_info_vram_used").and_then(|bytes| number::memory(bytes, 1));
    gpu.utilization = figure("gpu_busy_percent").and_then(number::percent);
    gpu
}

/// The first line of a file in sysfs. Reading fails if the GPU is asleep or being reset.
fn line(path: &Path) -> Reading<String> {
    let text = fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Missing::NotSupported,
        _ => Missing::of_file(path, &error),
    })?;
    Ok(shown(text.lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use dryrack_units::{Bytes, Permille};

    /// Names and forms of the files are those of the kernel's documentation of amdgpu. The figures are those of an
    /// MI300X, as amd-smi has them in GitHub dstackai/dstack runner/internal/runner/metrics/metrics_test.go
    /// @43fae1d09d2b. The id is that of an MI210 in GitHub 2maz/slurm-monitor tests/slurm_monitor/devices/test_gpu.py
    /// @0b32253993e8.
    #[test]
    fn cards_of_amd_are_found_among_others_and_by_number() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |card: &str, file: &str, text: &str| {
            let device = dir.path().join("class/drm").join(card).join("device");
            fs::create_dir_all(&device).expect("made");
            fs::write(device.join(file), text).expect("written");
        };
        let snapshot = || AmdSysfs::new(dir.path()).poll(&Clock::start(), Deadline::within(Duration::from_secs(5)));
        assert_eq!(snapshot().unwrap_err().name(), "not_installed");
        write("card0", "vendor", "0x1a03\n");
        assert_eq!(snapshot().unwrap_err().name(), "no_driver");
        for card in ["card10", "card2", "card2-DP-1"] {
            write(card, "vendor", "0x1002\n");
            write(card, "mem_info_vram_total", "206141652992\n");
            write(card, "mem_info_vram_used", "296747008\n");
        }
        write("card2", "gpu_busy_percent", "10\n");
        write("card2", "unique_id", "18f68e602b8a790f\n");
        write("card10", "gpu_busy_percent", "");
        let gpus = snapshot().expect("two cards").nodes.remove(0).gpus;
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].utilization, Ok(Permille::new(100)));
        assert_eq!(gpus[0].memory, Ok(Bytes::from_mib(196_592)));
        assert_eq!(gpus[0].memory_used, Ok(Bytes::from_mib(283)));
        assert_eq!(gpus[1].utilization, Err(Missing::NotAvailable));
        assert_eq!(gpus[1].name.as_ref().unwrap_err().name(), "unsaid");
    }
}

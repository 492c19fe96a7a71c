//! Apple's machines: `sysctl` for cores and memory, `ioreg` for the GPU. Neither needs special rights.
//!
//! The GPU's memory is a part of RAM. `iogpu.wired_limit_mb` is the largest amount that macOS gives the GPU. Its
//! default 0 stands for the system's own limit. The probe takes this limit to be two thirds of RAM up to 36 GiB, and
//! three quarters above (Metal's `recommendedMaxWorkingSetSize` on machines of 32 and 128 GB; the rows of
//! `machines.csv` give the source). Newer releases of macOS allow more.

use super::command::{Command, Limits};
use super::missing::Missing;
use super::snapshot::{GpuSnapshot, NodeSnapshot, Reading, Snapshot};
use super::{Probe, number};
use crate::clock::{Clock, Deadline, Stamp};
use dryrack_catalog::{CpuArch, Os, Vendor};
use dryrack_units::{Bytes, MilliCpu};

pub struct Apple;

const KEYS: [&str; 6] =
    ["kern.hostname", "hw.ncpu", "hw.memsize", "hw.machine", "machdep.cpu.brand_string", "iogpu.wired_limit_mb"];

impl Probe for Apple {
    fn source(&self) -> String {
        "ioreg and sysctl".to_string()
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let limits = Limits::until(deadline);
        let sysctl = match Command::new("sysctl").args(KEYS).output(limits) {
            // macOS before 15 does not know the last key. It prints the other values and then exits with an error, so
            // ask again without this key.
            Err(Missing::Exited { .. }) => Command::new("sysctl").args(&KEYS[..5]).output(limits)?,
            said => said?,
        };
        let args = ["-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"];
        let ioreg = Command::new("ioreg").args(args).output(limits)?;
        let memory = Command::new("vm_stat").output(limits);
        read(&sysctl, &ioreg, memory.as_deref().unwrap_or_default(), clock.now())
            .map(|node| Snapshot { nodes: vec![node], notes: Vec::new() })
    }
}

/// Reads the output of the three programs. That of `vm_stat` may be empty.
pub fn read(sysctl: &str, ioreg: &str, vm_stat: &str, at: Stamp) -> Result<NodeSnapshot, Missing> {
    let value = |key: &str| -> Reading<&str> {
        let found = sysctl.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        found.map(str::trim).ok_or_else(|| Missing::unsaid("sysctl"))
    };
    let figure = |key: &str| number::number(value(key)?, "sysctl", 1);
    let mut node = NodeSnapshot::named(value("kern.hostname").unwrap_or(""), at, "sysctl");
    node.os = Some(Os::Darwin);
    node.arch = value("hw.machine").ok().map(|arch| if arch == "x86_64" { CpuArch::X86_64 } else { CpuArch::Aarch64 });
    node.cpu = figure("hw.ncpu").map(|cores| MilliCpu::from_cores(cores.clamp(0.0, 1e6) as u64));
    let ram = figure("hw.memsize").and_then(|bytes| number::memory(bytes, 1));
    node.ram_used = ram.clone().and_then(|ram| used(ram, vm_stat));
    node.ram = ram.clone();
    for block in ioreg.split("+-o ").skip(1) {
        let mut gpu = GpuSnapshot::numbered(node.gpus.len() as u32, at, "ioreg");
        let statistics = block.lines().find(|line| line.trim_start().starts_with("\"PerformanceStatistics\""));
        let Some(statistics) = statistics else { continue };
        let figure = |key: &str| {
            // Search with the quotes and the sign, so that a longer key with the same beginning does not match.
            let sign = format!("\"{key}\"=");
            let behind = statistics.split_once(&sign).ok_or_else(|| Missing::unsaid("ioreg"))?.1;
            let end = behind.find([',', '}']).unwrap_or(behind.len());
            number::number(&behind[..end], "ioreg", 1)
        };
        gpu.vendor = Some(Vendor::Apple);
        gpu.unified = node.arch == Some(CpuArch::Aarch64);
        gpu.name = value("machdep.cpu.brand_string").map(str::to_string);
        gpu.utilization = figure("Device Utilization %").and_then(number::percent);
        gpu.memory_used = figure("In use system memory").and_then(|bytes| number::memory(bytes, 1));
        let limit = self::figure_or(figure_of(sysctl, "iogpu.wired_limit_mb"), 0.0);
        gpu.memory = match ram.clone() {
            Ok(ram) if limit > 0.0 => number::memory(limit, 1 << 20).map(|limit| limit.min(ram)),
            Ok(ram) => Ok(own_limit(ram)),
            Err(missing) => Err(missing),
        };
        node.gpus.push(gpu);
    }
    if node.gpus.is_empty() {
        return Err(Missing::malformed("ioreg", 1, "an accelerator with its PerformanceStatistics", ioreg));
    }
    Ok(node)
}

fn figure_of(sysctl: &str, key: &str) -> Option<f64> {
    sysctl.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))?.trim().parse().ok()
}

fn figure_or(figure: Option<f64>, other: f64) -> f64 {
    figure.filter(|figure| figure.is_finite()).unwrap_or(other)
}

fn own_limit(ram: Bytes) -> Bytes {
    let (times, over) = if ram <= Bytes::from_gib(36) { (2, 3) } else { (3, 4) };
    Bytes::new(ram.get() / over * times)
}

/// The RAM in use: everything except what vm_stat calls free, inactive, speculative and purgeable.
fn used(ram: Bytes, vm_stat: &str) -> Reading<Bytes> {
    let unsaid = || Missing::unsaid("vm_stat");
    let size = vm_stat.split_once("page size of ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
    let size = size.ok_or_else(unsaid)?;
    let pages = |key: &str| -> Reading<u64> {
        let line = vm_stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).ok_or_else(unsaid)?;
        line.trim()
            .trim_end_matches('.')
            .parse()
            .map_err(|_| Missing::malformed("vm_stat", 1, "a number of pages", line))
    };
    let free = ["Pages free", "Pages inactive", "Pages speculative", "Pages purgeable"];
    let free = free.into_iter().map(pages).sum::<Reading<u64>>()?;
    Ok(ram.saturating_sub(Bytes::new(free.saturating_mul(size))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::Permille;

    /// `ioreg -r -d 1 -w 0 -c "IOAccelerator"` of a MacBook Pro of 2021 with macOS 12.6, as far as GitHub
    /// exelban/stats#1094 shows it.
    const IOREG: &str = r#"+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x10000087c, registered, matched, active, busy 0 (17 ms), retain 24>
    {
      "AGXParameterBufferMaxSizeEverMemless" = 574881792
      "IOMatchedAtBoot" = Yes
      "AGCInfo" = {"fLastSubmissionPID"=390,"fSubmissionsSinceLastCheck"=0,"fBusyCount"=0}
      "PerformanceStatistics" = {"TiledSceneBytes"=1572864,"Alloc system memory"=1214005248,"Tiler Utilization %"=2,"recoveryCount"=0,"Renderer Utilization %"=2,"SplitSceneCount"=0,"Allocated PB Size"=17956864,"Device Utilization %"=2,"In use system memory"=340983808}
      "IOGLBundleName" = "AppleMetalOpenGLRenderer"
"#;

    fn node(sysctl: &str) -> NodeSnapshot {
        read(sysctl, IOREG, "", Clock::start().now()).expect("it is read")
    }

    #[test]
    fn the_gpu_has_what_macos_wires_for_it() {
        let sysctl =
            "hw.ncpu: 10\nhw.memsize: 34359738368\nhw.machine: arm64\nmachdep.cpu.brand_string: Apple M1 Max\n";
        let own = node(sysctl);
        let gpu = &own.gpus[0];
        assert_eq!((gpu.utilization.clone(), gpu.unified), (Ok(Permille::new(20)), true));
        assert_eq!(gpu.memory_used, Ok(Bytes::new(340_983_808)));
        // 32 GiB: two thirds, which is 21.3 GiB as for machine m1-pro-32g in machines.csv.
        assert_eq!(gpu.memory.as_ref().map(|memory| memory.get() >> 20), Ok(21_845));
        assert_eq!(own.ram_used.unwrap_err().name(), "unsaid");
        // From GitHub AlexsJones/llmfit#570: set to 26000, llama-server lists the GPU with 26000 MiB.
        let set = node(&format!("{sysctl}iogpu.wired_limit_mb: 26000\n"));
        assert_eq!(set.gpus[0].memory, Ok(Bytes::from_mib(26_000)));
        assert_eq!(node(&format!("{sysctl}iogpu.wired_limit_mb: 0\n")).gpus[0].memory, gpu.memory);
    }

    #[test]
    fn what_ioreg_does_not_say_is_told() {
        let at = Clock::start().now();
        for rubbish in ["", "+-o A\n{\n}\n", "<html>"] {
            assert_eq!(read("", rubbish, "", at).unwrap_err().name(), "malformed");
        }
        let idle = IOREG.replace("\"Device Utilization %\"=2,", "");
        let gpu = read("", &idle, "", at).expect("read").gpus.remove(0);
        assert_eq!(gpu.utilization.unwrap_err().name(), "unsaid");
        assert_eq!(gpu.memory.unwrap_err().name(), "unsaid");
    }
}

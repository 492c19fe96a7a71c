//! Programs of GPU vendors that print a line of comma-separated values for each GPU: nvidia-smi, amd-smi and hl-smi.
//!
//! | program | arguments | columns |
//! | --- | --- | --- |
//! | nvidia-smi | `--query-gpu=... --format=csv,noheader,nounits` | as requested, in that order; memory in MiB |
//! | hl-smi | `--query-aip=... --format=csv,noheader,nounits` | as requested, in that order; memory in MiB |
//! | amd-smi | `monitor -vu --csv` | named by its first line, which varies by release; memory in MB, which are MiB |
//!
//! If one figure of a GPU is missing, the other figures are kept. If a line is cut off or has the wrong number of
//! columns, the whole poll is rejected, because the figures can no longer be assigned to columns.

use std::ffi::OsString;

use super::command::{Command, Limits};
use super::missing::Missing;
use super::snapshot::{GpuSnapshot, NodeSnapshot, Snapshot};
use super::{Probe, number};
use crate::clock::{Clock, Deadline, Stamp};
use dryrack_catalog::Vendor;

/// The vendor of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmiKind {
    Nvidia,
    Gaudi,
    Amd,
}

/// The GPUs of this machine, as listed by a program of their vendor.
pub struct Smi {
    kind: SmiKind,
    program: OsString,
}

const NVIDIA: &str = "--query-gpu=index,uuid,name,memory.total,memory.used,utilization.gpu,driver_version";
const GAUDI: &str = "--query-aip=index,uuid,name,memory.total,memory.used,utilization.aip,driver_version";
const FORMAT: &str = "--format=csv,noheader,nounits";
const MIB: u64 = 1 << 20;
/// The limit on the index of a GPU. No machine has so many GPUs.
const MOST_GPUS: u32 = 1024;

/// The columns that every driver knows.
pub const COLUMNS: usize = 7;

impl Smi {
    pub fn new(kind: SmiKind) -> Smi {
        let program = match kind {
            SmiKind::Nvidia => "nvidia-smi",
            SmiKind::Gaudi => "hl-smi",
            SmiKind::Amd => "amd-smi",
        };
        Smi::at(kind, program)
    }

    /// The program at another path.
    pub fn at(kind: SmiKind, program: impl Into<OsString>) -> Smi {
        Smi { kind, program: program.into() }
    }

    /// The output of the program, and the number of requested columns.
    fn run_query(&self, deadline: Deadline) -> Result<(String, usize), Missing> {
        let limits = Limits::until(deadline);
        let ask = |args: &[&str]| Command::new(&self.program).args(args.iter().copied()).output(limits);
        match self.kind {
            SmiKind::Gaudi => Ok((ask(&[GAUDI, FORMAT])?, COLUMNS)),
            SmiKind::Amd => Ok((ask(&["monitor", "-vu", "--csv"])?, 0)),
            SmiKind::Nvidia => match ask(&[&format!("{NVIDIA},compute_cap"), FORMAT]) {
                // Drivers before 510 do not know the last column, and reject the whole request because of it.
                Err(Missing::Exited { said, .. }) if said.contains("compute_cap") => {
                    Ok((ask(&[NVIDIA, FORMAT])?, COLUMNS))
                }
                // nvidia-smi exits with 9 if no driver is loaded (`man nvidia-smi`, return value).
                Err(Missing::Exited { what, code: 9, said }) => Err(Missing::NoDriver { what, said }),
                said => Ok((said?, COLUMNS + 1)),
            },
        }
    }
}

impl Probe for Smi {
    fn source(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let (said, columns) = self.run_query(deadline)?;
        let at = clock.now();
        let mut node = NodeSnapshot::named("", at, &self.source());
        let what = self.source();
        (node.driver, node.gpus) = read(self.kind, &said, &what, columns, at)?;
        Ok(Snapshot { nodes: vec![node], notes: Vec::new() })
    }
}

type Listed = (Option<String>, Vec<GpuSnapshot>);

/// Reads the table of such a program, with this number of requested columns. amd-smi names its columns.
pub fn read(kind: SmiKind, said: &str, what: &str, columns: usize, at: Stamp) -> Result<Listed, Missing> {
    match kind {
        SmiKind::Nvidia => listed(said, what, Vendor::Nvidia, columns, at),
        SmiKind::Gaudi => listed(said, what, Vendor::Intel, columns, at),
        SmiKind::Amd => Ok((None, monitored(said, what, at)?)),
    }
}

/// The complete lines, with their numbers.
fn lines<'t>(said: &'t str, what: &str) -> Result<Vec<(usize, &'t str)>, Missing> {
    if said.trim().is_empty() {
        return Err(Missing::Silent { what: what.to_string() });
    }
    if !said.ends_with('\n') {
        let found = said.lines().last().unwrap_or_default();
        return Err(Missing::HalfLine {
            what: what.to_string(),
            line: said.lines().count(),
            found: super::shown(found),
        });
    }
    Ok(said.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim().is_empty()).collect())
}

/// Reads the columns index, uuid, name, memory.total, memory.used, utilization, driver_version and, if requested,
/// compute_cap.
fn listed(said: &str, what: &str, vendor: Vendor, columns: usize, at: Stamp) -> Result<Listed, Missing> {
    let (mut driver, mut gpus) = (None, Vec::new());
    for (line, text) in lines(said, what)? {
        // No GPU has a comma in its name.
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != columns {
            // nvidia-smi prints "No devices were found" and exits successfully.
            if text.to_ascii_lowercase().contains("no devices") {
                return Err(Missing::NoDriver { what: what.to_string(), said: super::shown(text) });
            }
            return Err(Missing::malformed(what, line, &format!("{columns} values"), text));
        }
        let mut gpu = GpuSnapshot::numbered(index(cells[0], what, line)?, at, what);
        gpu.vendor = Some(vendor);
        gpu.uuid = number::sentinel(cells[1]).is_none().then(|| cells[1].to_string());
        gpu.name = number::sentinel(cells[2]).map_or(Ok(cells[2].to_string()), Err);
        gpu.memory = number::number(cells[3], what, line).and_then(|mib| number::memory(mib, MIB));
        gpu.memory_used = number::number(cells[4], what, line).and_then(|mib| number::memory(mib, MIB));
        gpu.utilization = number::number(cells[5], what, line).and_then(number::percent);
        driver = driver.or_else(|| number::sentinel(cells[6]).is_none().then(|| cells[6].to_string()));
        gpu.compute_capability = cells.get(7).and_then(|cell| cell.parse().ok());
        gpus.push(gpu);
    }
    in_order(gpus, what).map(|gpus| (driver, gpus))
}

/// Reads a header line with the names of columns, then one line for each GPU.
fn monitored(said: &str, what: &str, at: Stamp) -> Result<Vec<GpuSnapshot>, Missing> {
    let all = lines(said, what)?;
    // Warnings may precede the header line.
    let header = all.iter().position(|(_, text)| text.split(',').any(|name| name.trim() == "gpu"));
    let Some(header) = header else {
        return Err(Missing::malformed(what, 1, "names of columns, `gpu` among them", all[0].1));
    };
    let names: Vec<&str> = all[header].1.split(',').map(str::trim).collect();
    let column = |name: &str| names.iter().position(|known| *known == name);
    let mut gpus = Vec::new();
    for (line, text) in &all[header + 1..] {
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != names.len() {
            return Err(Missing::malformed(what, *line, &format!("{} values", names.len()), text));
        }
        let figure = |name: &str| match column(name) {
            Some(at) => number::number(cells[at], what, *line),
            None => Err(Missing::unsaid(what)),
        };
        let mut gpu = GpuSnapshot::numbered(index(cells[column("gpu").unwrap_or(0)], what, *line)?, at, what);
        gpu.vendor = Some(Vendor::Amd);
        gpu.memory = figure("vram_total").and_then(|mib| number::memory(mib, MIB));
        gpu.memory_used = figure("vram_used").and_then(|mib| number::memory(mib, MIB));
        gpu.utilization = figure("gfx").and_then(number::percent);
        gpus.push(gpu);
    }
    if gpus.is_empty() {
        return Err(Missing::NoDriver { what: what.to_string(), said: "no GPU was listed".to_string() });
    }
    in_order(gpus, what)
}

fn index(text: &str, what: &str, line: usize) -> Result<u32, Missing> {
    let index = text.parse::<u32>().ok().filter(|index| *index < MOST_GPUS);
    index.ok_or_else(|| Missing::malformed(what, line, "the index of a GPU", text))
}

/// The GPUs sorted by index. Two GPUs with the same index are an error, because they cannot be told apart.
fn in_order(mut gpus: Vec<GpuSnapshot>, what: &str) -> Result<Vec<GpuSnapshot>, Missing> {
    gpus.sort_by_key(|gpu| gpu.index);
    match gpus.windows(2).find(|pair| pair[0].index == pair[1].index) {
        Some(pair) => Err(Missing::malformed(what, 1, "each GPU once", &format!("GPU {} twice", pair[0].index))),
        None => Ok(gpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::{Bytes, Permille};

    /// Output of amd-smi 24.7.1 with ROCm 6.3.1 and 25.3.0 with ROCm 6.4.0, as recorded in GitHub dstackai/dstack
    /// runner/internal/runner/metrics/metrics_test.go @43fae1d09d2b.
    #[test]
    fn both_forms_of_amd_smi_are_read_by_the_names_of_their_columns() {
        let rows = [
            ("gpu,gfx,gfx_clock,vram_used,vram_total\n0,10,132,283,196300\n", 196_300),
            ("gpu,gfx_clk,gfx,vram_used,vram_free,vram_total,vram_percent\n0,132,10,283,196309,196592,0.0\n", 196_592),
        ];
        for (said, total) in rows {
            let gpus = monitored(said, "amd-smi", Clock::start().now()).expect("it is read");
            assert_eq!(gpus[0].utilization, Ok(Permille::new(100)));
            assert_eq!(gpus[0].memory_used, Ok(Bytes::new(296_747_008)));
            assert_eq!(gpus[0].memory, Ok(Bytes::from_mib(total)));
        }
        let none = "gpu,gfx,gfx_clock,vram_used,vram_total\n0,N/A,N/A,283,196300\n";
        let gpus = monitored(none, "amd-smi", Clock::start().now()).expect("it is read");
        assert_eq!(gpus[0].utilization, Err(Missing::NotAvailable));
        assert_eq!(gpus[0].memory_used, Ok(Bytes::from_mib(283)));
    }

    /// Two of the sixteen Tesla V100-SXM3-32GB that nvidia-smi listed in GitHub 2maz/slurm-monitor
    /// tests/slurm_monitor/devices/test_gpu.py @0b32253993e8, with the columns rearranged. The total is the sum of used
    /// and free. Columns that the source does not have are N/A.
    #[test]
    fn gpus_are_in_order_of_their_index_and_none_is_there_twice() {
        let first = "0, GPU-ad466f2f-575d-d949-35e0-9a7d912d974e, Tesla V100-SXM3-32GB, 32500, 5, 0, [N/A], [N/A]\n";
        let second =
            "1, GPU-3410aa41-502b-5cf1-d8c4-58dc1c22fbc9, Tesla V100-SXM3-32GB, 32500, 11149, 98, [N/A], [N/A]\n";
        let read = |lines: [&str; 2]| listed(&lines.concat(), "nvidia-smi", Vendor::Nvidia, 8, Clock::start().now());
        let (driver, gpus) = read([second, first]).expect("two GPUs");
        assert_eq!(gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((driver, gpus[0].compute_capability), (None, None));
        assert_eq!(
            (gpus[1].utilization.clone(), gpus[1].memory.clone()),
            (Ok(Permille::new(980)), Ok(Bytes::from_mib(32_500)))
        );
        assert_eq!(read([second, second]).unwrap_err().name(), "malformed");
    }

    /// The first two of eight HL-205, from hl-smi 1.18.0, in the same file. Its driver_version is used. Units and names
    /// of the columns are those of docs.habana.ai, System Management Interface Tool.
    #[test]
    fn gaudis_are_read_as_hl_smi_lists_them() {
        let lines = "0, 00P1-HL2000A1-14-P64W99-13-05-03, HL-205, 32768, 512, 15, 1.18.0-fw-53.1.1.1\n\
                     1, 00P1-HL2000A1-14-P64W99-02-08-05, HL-205, 32768, 512, 15, 1.18.0-fw-53.1.1.1\n";
        let (driver, gpus) = listed(lines, "hl-smi", Vendor::Intel, 7, Clock::start().now()).expect("two of them");
        assert_eq!((driver.as_deref(), gpus.len()), (Some("1.18.0-fw-53.1.1.1"), 2));
        let one = &gpus[1];
        assert_eq!(
            (one.uuid.as_deref(), one.name.as_deref()),
            (Some("00P1-HL2000A1-14-P64W99-02-08-05"), Ok("HL-205"))
        );
        assert_eq!((one.memory.clone(), one.memory_used.clone()), (Ok(Bytes::from_gib(32)), Ok(Bytes::from_mib(512))));
        assert_eq!((one.utilization.clone(), one.vendor), (Ok(Permille::new(150)), Some(Vendor::Intel)));
    }
}

//! This machine's CPUs and memory, through procfs and cgroups.
//!
//! If a cgroup allows less than the machine has, the cgroup's limit counts: a container with four cores on a machine
//! with sixty-four is a node with four. The probe reads both versions of cgroups. It reads each limit at every level up
//! to the root, because the smallest one applies.
//!
//! With a memory limit, the memory in use is that of the processes at the level of the smallest limit, without page
//! cache that could be dropped (the working set, as kubelet computes it). Without a limit, it is all memory that is not
//! available.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Probe;
use super::missing::Missing;
use super::snapshot::{NodeSnapshot, Reading, Snapshot};
use crate::clock::{Clock, Deadline, Stamp, pause};
use dryrack_catalog::{CpuArch, Os};
use dryrack_units::{Bytes, MilliCpu};

/// The folders where procfs and sysfs are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys") }
    }
}

/// CPU use is measured between two polls. The first poll measures it over this time.
const FIRST_SPAN: Duration = Duration::from_millis(200);

pub struct Machine {
    roots: Roots,
    name: Option<String>,
    before: Option<CpuTimes>,
}

impl Machine {
    pub fn new(roots: Roots) -> Machine {
        Machine { roots, name: None, before: None }
    }

    /// The machine, under a name chosen by the user.
    pub fn named(roots: Roots, name: &str) -> Machine {
        Machine { name: Some(name.to_string()), ..Machine::new(roots) }
    }

    fn read(&self, path: &str) -> Reading<String> {
        read(&self.roots.proc.join(path))
    }

    fn name(&self) -> String {
        let own = || self.read("sys/kernel/hostname").ok().map(|name| name.trim().to_string());
        self.name.clone().or_else(own).filter(|name| !name.is_empty()).unwrap_or_else(|| "this-machine".to_string())
    }

    fn times(&self) -> Reading<CpuTimes> {
        let text = self.read("stat")?;
        let path = self.roots.proc.join("stat");
        CpuTimes::parse(&text).ok_or_else(|| {
            let found = text.lines().next().unwrap_or_default();
            Missing::malformed(&path.display().to_string(), 1, "the times of all CPUs", found)
        })
    }

    /// How many cores were busy on average since the last poll.
    fn cpu_used(&mut self, cores: u64, deadline: Deadline) -> Reading<MilliCpu> {
        let before = match self.before {
            Some(before) => before,
            None => {
                let first = self.times()?;
                pause(FIRST_SPAN.min(deadline.left()));
                first
            }
        };
        let now = self.times()?;
        self.before = Some(now);
        now.used_since(before, cores)
    }

    fn poll_at(&mut self, at: Stamp, deadline: Deadline) -> Result<NodeSnapshot, Missing> {
        let source = self.source();
        let mut node = NodeSnapshot::named(&self.name(), at, &source);
        node.os = (self.roots == Roots::default() || cfg!(target_os = "linux")).then_some(Os::Linux);
        node.arch = std::env::consts::ARCH.parse::<CpuArch>().ok();
        let cores = self.times()?.cores;
        let cgroups = Cgroups::of(&self.roots);
        let own = MilliCpu::from_cores(cores);
        node.cpu = Ok(cgroups.least_cpu().map_or(own, |limit| limit.min(own)));
        node.cpu_used = self.cpu_used(cores, deadline).map(|used| used.min(node.cpu.clone().unwrap_or(used)));
        let memory = self.read("meminfo")?;
        let path = self.roots.proc.join("meminfo").display().to_string();
        let total = meminfo(&memory, "MemTotal").ok_or_else(|| Missing::unsaid(&path))?;
        match cgroups.least_memory().filter(|(limit, _)| *limit < total) {
            Some((limit, working_set)) => {
                node.ram = Ok(limit);
                node.ram_used = working_set.map(|used| used.min(limit));
            }
            None => {
                node.ram = Ok(total);
                let available = available(&memory).ok_or_else(|| Missing::unsaid(&path));
                node.ram_used = available.map(|available| total.saturating_sub(available));
            }
        }
        Ok(node)
    }
}

impl Probe for Machine {
    fn source(&self) -> String {
        self.roots.proc.display().to_string()
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let node = self.poll_at(clock.now(), deadline)?;
        Ok(Snapshot { nodes: vec![node], notes: Vec::new() })
    }
}

fn read(path: &Path) -> Reading<String> {
    fs::read_to_string(path).map_err(|error| Missing::of_file(path, &error))
}

/// Ticks of all CPUs together since the machine started, as `man 5 proc` describes `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTimes {
    /// The time in all states. Guest time is left out, because it is already part of user time.
    all: u64,
    /// The time in which a CPU was idle, including waiting for a disk.
    idle: u64,
    cores: u64,
}

impl CpuTimes {
    fn parse(text: &str) -> Option<CpuTimes> {
        let first = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = first.split_ascii_whitespace().map(|tick| tick.parse().ok()).collect::<Option<_>>()?;
        let is_core = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
        };
        let cores = text.lines().filter(is_core).count() as u64;
        let all = ticks.iter().take(8).try_fold(0_u64, |sum, tick| sum.checked_add(*tick))?;
        let idle = ticks.get(3)?.checked_add(ticks.get(4).copied().unwrap_or(0))?;
        (ticks.len() >= 4 && cores > 0).then_some(CpuTimes { all, idle, cores })
    }

    /// The CPU use since `before`. Idle time may decrease a little while a core is switched off; then it counts as
    /// unchanged.
    fn used_since(self, before: CpuTimes, cores: u64) -> Reading<MilliCpu> {
        let all = self.all.saturating_sub(before.all);
        if all == 0 {
            return Err(Missing::NotAvailable);
        }
        let busy = all.saturating_sub(self.idle.saturating_sub(before.idle));
        let milli = u128::from(busy) * u128::from(cores) * 1000 / u128::from(all);
        Ok(MilliCpu::new(milli.min(u128::from(u64::MAX)) as u64))
    }
}

/// Reads a line such as `MemTotal:       24684084 kB`, which is in KiB.
fn meminfo(text: &str, key: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(Bytes::new)
}

/// The available memory. Kernels before 3.14 do not report it; the sum of free memory and caches comes closest.
fn available(text: &str) -> Option<Bytes> {
    meminfo(text, "MemAvailable").or_else(|| {
        let parts = ["MemFree", "Buffers", "Cached"].map(|key| meminfo(text, key));
        parts.into_iter().try_fold(Bytes::ZERO, |sum, part| sum.checked_add(part?))
    })
}

/// The cgroup of this process in each hierarchy, with all its ancestors.
struct Cgroups {
    v2: Vec<PathBuf>,
    cpu: Vec<PathBuf>,
    memory: Vec<PathBuf>,
}

impl Cgroups {
    fn of(roots: &Roots) -> Cgroups {
        let own = read(&roots.proc.join("self/cgroup")).unwrap_or_default();
        let mount = roots.sys.join("fs/cgroup");
        let unified = if mount.join("unified").is_dir() { mount.join("unified") } else { mount.clone() };
        let mut found = Cgroups { v2: Vec::new(), cpu: Vec::new(), memory: Vec::new() };
        for line in own.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let has = |name: &str| controllers.split(',').any(|controller| controller == name);
            if number == "0" && controllers.is_empty() {
                found.v2 = levels(&unified, path);
            }
            // Controllers that are mounted together can be reached under either name.
            if has("cpu") {
                found.cpu = levels(&mount.join("cpu"), path);
            }
            if has("memory") {
                found.memory = levels(&mount.join("memory"), path);
            }
        }
        found
    }

    /// The smallest limit on CPU time at any level.
    fn least_cpu(&self) -> Option<MilliCpu> {
        let of_v2 = self.v2.iter().filter_map(|level| {
            let text = read(&level.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            milli(quota.parse().ok()?, period.parse().ok()?)
        });
        let of_v1 = self.cpu.iter().filter_map(|level| {
            let number = |file: &str| read(&level.join(file)).ok()?.trim().parse().ok();
            // The file contains -1 if there is no limit, which does not parse as a number here.
            milli(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        });
        of_v2.chain(of_v1).min()
    }

    /// The smallest limit on memory, and how much of it is in use.
    fn least_memory(&self) -> Option<(Bytes, Reading<Bytes>)> {
        let v2 = self.v2.iter().filter_map(|level| Some((number(level, "memory.max")?, level, V2)));
        let v1 = self.memory.iter().filter_map(|level| Some((number(level, "memory.limit_in_bytes")?, level, V1)));
        let (limit, level, files) = v2.chain(v1).min_by_key(|(limit, ..)| *limit)?;
        Some((Bytes::new(limit), working_set(level, files)))
    }
}

/// The file with the memory in use, and the key in `memory.stat` for page cache that could be dropped.
type Files = (&'static str, &'static str);
const V2: Files = ("memory.current", "inactive_file");
const V1: Files = ("memory.usage_in_bytes", "total_inactive_file");

fn number(level: &Path, file: &str) -> Option<u64> {
    read(&level.join(file)).ok()?.trim().parse().ok()
}

fn working_set(level: &Path, (used, cache): Files) -> Reading<Bytes> {
    let path = level.join(used);
    let text = read(&path)?;
    let used: u64 = text
        .trim()
        .parse()
        .map_err(|_| Missing::malformed(&path.display().to_string(), 1, "a number of bytes", &text))?;
    let stat = read(&level.join("memory.stat")).unwrap_or_default();
    let cache = stat.lines().find_map(|line| line.split_once(' ').filter(|(key, _)| *key == cache)?.1.parse().ok());
    Ok(Bytes::new(used.saturating_sub(cache.unwrap_or(0))))
}

fn milli(quota: u64, period: u64) -> Option<MilliCpu> {
    let milli = u128::from(quota) * 1000 / u128::from(period.max(1));
    Some(MilliCpu::new(u64::try_from(milli).ok()?.max(1)))
}

/// The folder `path` below `mount`, and all folders above it up to the mount. Inside a cgroup namespace, the path from
/// procfs may not exist below the mount. The mount itself is then the cgroup of this process.
fn levels(mount: &Path, path: &str) -> Vec<PathBuf> {
    let inside: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    let all = (0..=inside.len()).rev().map(|depth| {
        let mut level = mount.to_path_buf();
        level.extend(&inside[..depth]);
        level
    });
    all.filter(|level| level.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Tree {
            let dir = tempfile::tempdir().expect("a folder");
            for (path, text) in files {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
                fs::write(path, text).expect("written");
            }
            Tree(dir)
        }

        fn poll(&self) -> Result<NodeSnapshot, Missing> {
            let roots = Roots { proc: self.0.path().join("proc"), sys: self.0.path().join("sys") };
            let clock = Clock::start();
            let snapshot = Machine::new(roots).poll(&clock, Deadline::within(Duration::from_secs(5)));
            snapshot.map(|mut snapshot| snapshot.nodes.remove(0))
        }
    }

    // Recorded on a machine with Debian 12, Linux 6.18, two virtual cores and cgroups of both versions.
    const STAT: &str = "cpu  6595763 359351 545967 2027049 21609 0 3395 5630 0 0\ncpu0 3262717 184049 259401 1064345 5442 \
                        0 230 2821 0 0\ncpu1 3333046 175302 286566 962704 16166 0 3165 2808 0 0\nintr 1\n";
    const MEMINFO: &str = "MemTotal:       24684084 kB\nMemFree:          304136 kB\nMemAvailable:   18156884 kB\n\
                           Buffers:          105896 kB\nCached:         17192208 kB\n";
    const CGROUP: &str = "9:name=systemd:/\n4:memory:/process_api/79da\n1:cpu:/\n0::/\n";

    #[test]
    fn a_machine_is_what_procfs_says() {
        let tree = Tree::new(&[
            ("proc/stat", STAT),
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", CGROUP),
            ("proc/sys/kernel/hostname", "vm\n"),
            ("sys/fs/cgroup/memory/process_api/79da/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/unified/cgroup.procs", ""),
        ]);
        let node = tree.poll().expect("it is read");
        assert_eq!((node.name.as_str(), node.cpu), ("vm", Ok(MilliCpu::from_cores(2))));
        assert_eq!(node.ram, Ok(Bytes::new(24_684_084 * 1024)));
        assert_eq!(node.ram_used, Ok(Bytes::new((24_684_084 - 18_156_884) * 1024)));
        // The file did not change between the two polls, so no time has passed.
        assert_eq!(node.cpu_used, Err(Missing::NotAvailable));
    }

    /// The files follow the kernel's documentation (admin-guide/cgroup-v2 and cgroup-v1). The limits are round numbers,
    /// so the results can be calculated on paper.
    #[test]
    fn a_container_is_what_its_cgroup_may_take_at_the_tightest_level() {
        let v2 = [
            ("proc/stat", STAT),
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/kubepods/pod1/c\n"),
            ("sys/fs/cgroup/kubepods/pod1/c/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/kubepods/pod1/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/kubepods/pod1/c/memory.max", "max\n"),
            ("sys/fs/cgroup/kubepods/pod1/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/kubepods/pod1/memory.current", "3221225472\n"),
            ("sys/fs/cgroup/kubepods/pod1/memory.stat", "anon 5\ninactive_file 1073741824\nactive_file 7\n"),
        ];
        let node = Tree::new(&v2).poll().expect("it is read");
        assert_eq!((node.cpu, node.ram), (Ok(MilliCpu::new(1500)), Ok(Bytes::from_gib(4))));
        assert_eq!(node.ram_used, Ok(Bytes::from_gib(2)));
        let v1 = [
            ("proc/stat", STAT),
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n"),
            // Inside a cgroup namespace, only the mount itself is visible.
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 268435456\n"),
        ];
        let node = Tree::new(&v1).poll().expect("it is read");
        assert_eq!((node.cpu, node.ram), (Ok(MilliCpu::new(500)), Ok(Bytes::from_gib(1))));
        assert_eq!(node.ram_used, Ok(Bytes::from_mib(256)));
    }

    #[test]
    fn what_procfs_does_not_say_is_told_by_name() {
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let rows: [Row<'_>; 6] = [
            ("no procfs", &[], "not_installed"),
            ("an empty stat", &[("proc/stat", "")], "malformed"),
            ("rubbish", &[("proc/stat", "cpu  a b c d\ncpu0 1 2 3 4\n")], "malformed"),
            ("half a line", &[("proc/stat", "cpu  12 4")], "malformed"),
            ("no memory", &[("proc/stat", STAT), ("proc/meminfo", "MemFree: 5 kB\n")], "unsaid"),
            ("not a number", &[("proc/stat", STAT), ("proc/meminfo", "MemTotal: many kB\n")], "unsaid"),
        ];
        for (sentence, files, wanted) in rows {
            assert_eq!(Tree::new(files).poll().unwrap_err().name(), wanted, "{sentence}");
        }
    }

    #[test]
    fn busy_is_what_is_not_idle_by_arithmetic_on_paper() {
        let times = |text: &str| CpuTimes::parse(text).expect("times");
        let before = times("cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 1\ncpu1 1\n");
        // 100 more ticks, of which 30 are idle and 20 are waiting: half of two cores was in use.
        let after = times("cpu  140 0 110 830 20 0 0 0 99 0\ncpu0 1\ncpu1 1\n");
        assert_eq!(after.used_since(before, 2), Ok(MilliCpu::new(1000)));
    }
}

//! A page of a Prometheus exporter: DCGM's exporter, or another one that uses the same metric names.
//!
//! Metrics of NVIDIA's exporter (NVIDIA/dcgm-exporter, etc/default-counters.csv): `DCGM_FI_DEV_GPU_UTIL` in percent,
//! `DCGM_FI_DEV_FB_USED`, `_FREE` and `_RESERVED` in MiB. A GPU that is split (MIG) does not have the first metric;
//! `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, from 0 to 1, replaces it. A GPU is identified by its UUID and its index, a node by
//! `Hostname` (`hostname` in newer releases), and a pod by `namespace` and `pod`. A part of a split GPU (`GPU_I_ID`)
//! counts as a GPU here.
//!
//! Some numbers mean "not supported" and are not readings (see `number.rs`).

use std::collections::BTreeMap;

use super::command::Limits;
use super::http::{Page, shown_url};
use super::missing::Missing;
use super::snapshot::{GpuSnapshot, NodeSnapshot, Reading, Snapshot};
use super::{Probe, number};
use crate::clock::{Clock, Deadline, Stamp};
use dryrack_catalog::Vendor;
use dryrack_units::{Bytes, Permille};

pub struct Exporter {
    page: Page,
    url: String,
}

impl Exporter {
    /// A probe of this address. If the address has no path, `/metrics` is added.
    pub fn new(url: &str, token: Option<&str>) -> Exporter {
        let path = url.split_once("://").map_or(url, |(_, rest)| rest);
        let url = match path.trim_end_matches('/').contains('/') || path.trim_matches('/').is_empty() {
            true => url.to_string(),
            false => format!("{}/metrics", url.trim_end_matches('/')),
        };
        Exporter { page: Page::new(&url).token(token), url }
    }
}

impl Probe for Exporter {
    fn source(&self) -> String {
        shown_url(&self.url)
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let text = self.page.get(Limits::until(deadline))?;
        read(&text, &self.source(), clock.now())
    }
}

/// One line of the page: a name, labels and a number.
#[derive(Debug, PartialEq)]
pub struct Sample<'t> {
    pub name: &'t str,
    pub labels: BTreeMap<&'t str, String>,
    pub value: f64,
}

const MIB: u64 = 1 << 20;
const UTILIZATION: &str = "DCGM_FI_DEV_GPU_UTIL";
const ENGINE_ACTIVE: &str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
const USED: &str = "DCGM_FI_DEV_FB_USED";
const FREE: &str = "DCGM_FI_DEV_FB_FREE";
const RESERVED: &str = "DCGM_FI_DEV_FB_RESERVED";

/// All figures about one GPU, or about one part of it.
#[derive(Default)]
struct GpuFigures<'t> {
    labels: BTreeMap<&'t str, String>,
    values: BTreeMap<&'t str, f64>,
}

/// The GPU that a line is about: its node, its index and, for a part of a split GPU, the part.
type Key = (String, u32, String);

pub fn read(text: &str, what: &str, at: Stamp) -> Result<Snapshot, Missing> {
    let mut said: BTreeMap<Key, GpuFigures<'_>> = BTreeMap::new();
    let mut others: u64 = 0;
    for (index, line) in text.lines().enumerate() {
        let Some(sample) = sample(line, what, index + 1)? else { continue };
        let Some(gpu) = sample.labels.get("gpu").filter(|_| sample.name.starts_with("DCGM_FI_")) else {
            others += 1;
            continue;
        };
        let number = gpu.parse::<u32>().map_err(|_| Missing::malformed(what, index + 1, "the index of a GPU", gpu))?;
        let host = ["Hostname", "hostname", "host"].iter().find_map(|name| sample.labels.get(name));
        let part = sample.labels.get("GPU_I_ID").cloned().unwrap_or_default();
        let said = said.entry((host.cloned().unwrap_or_default(), number, part)).or_default();
        said.values.insert(sample.name, sample.value);
        said.labels.extend(sample.labels);
    }
    if said.is_empty() {
        return Err(Missing::Malformed {
            what: what.to_string(),
            line: 1,
            expected: format!("GPUs, as {UTILIZATION}{{gpu=\"0\"}} 97"),
            found: format!("{others} samples of other metrics"),
        });
    }
    Ok(Snapshot { nodes: nodes(said, what, at), notes: Vec::new() })
}

fn nodes(said: BTreeMap<Key, GpuFigures<'_>>, what: &str, at: Stamp) -> Vec<NodeSnapshot> {
    let mut nodes: Vec<NodeSnapshot> = Vec::new();
    for ((host, index, part), said) in said {
        if nodes.last().is_none_or(|node| node.name != host) {
            nodes.push(NodeSnapshot::named(&host, at, what));
        }
        let node = nodes.last_mut().expect("pushed above");
        let mut gpu = GpuSnapshot::numbered(index, at, what);
        let label = |name: &str| said.labels.get(name).filter(|text| !text.is_empty()).cloned();
        let version = label("DCGM_FI_DRIVER_VERSION");
        node.driver = node.driver.take().or(version);
        gpu.vendor = Some(Vendor::Nvidia);
        gpu.uuid = label("UUID").map(|uuid| if part.is_empty() { uuid } else { format!("{uuid}/{part}") });
        gpu.name = label("modelName").ok_or_else(|| Missing::unsaid(what));
        if let (Ok(name), Some(profile)) = (&mut gpu.name, label("GPU_I_PROFILE")) {
            name.push_str(&format!(" MIG {profile}"));
        }
        gpu.holder = label("pod").map(|pod| match label("namespace") {
            Some(space) => format!("{space}/{pod}"),
            None => pod,
        });
        let figure = |name: &str| match said.values.get(name) {
            Some(value) => number::not_blank(*value),
            None => Err(Missing::unsaid(what)),
        };
        gpu.utilization = utilization(&figure);
        gpu.memory_used = figure(USED).and_then(|mib| number::memory(mib, MIB));
        gpu.memory = total(&figure);
        // A further part of the same GPU gets an index after all existing ones.
        if node.gpus.iter().any(|other| other.index == index) {
            gpu.index = node.gpus.iter().map(|gpu| gpu.index + 1).max().unwrap_or(0);
        }
        node.gpus.push(gpu);
    }
    nodes
}

fn utilization(figure: &dyn Fn(&str) -> Reading<f64>) -> Reading<Permille> {
    figure(UTILIZATION).and_then(number::percent).or_else(|missing| {
        // A MIG device has no meaningful utilization, but it has the ratio of engine activity.
        figure(ENGINE_ACTIVE).and_then(|ratio| number::percent(ratio * 100.0)).map_err(|_| missing)
    })
}

/// The total memory. The page does not state it, so it is the sum of used, free and, if present, reserved memory.
fn total(figure: &dyn Fn(&str) -> Reading<f64>) -> Reading<Bytes> {
    let parts = figure(USED)? + figure(FREE)? + figure(RESERVED).unwrap_or(0.0);
    number::memory(parts, MIB)
}

/// Parses a line of the text format, version 0.0.4; `None` for a comment or an empty line.
pub fn sample<'t>(line: &'t str, what: &str, number: usize) -> Result<Option<Sample<'t>>, Missing> {
    let text = line.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let wrong = |expected: &str| Missing::malformed(what, number, expected, text);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let name_end = text.find(|letter: char| !is_name(letter)).ok_or_else(|| wrong("a value after the name"))?;
    let (name, rest) = text.split_at(name_end);
    if name.is_empty() {
        return Err(wrong("the name of a metric"));
    }
    let mut labels = BTreeMap::new();
    let rest = match rest.trim_start().strip_prefix('{') {
        Some(inner) => read_labels(inner, &mut labels).ok_or_else(|| wrong("labels such as {gpu=\"0\"}"))?,
        None => rest,
    };
    // A timestamp of the exporter may follow. It is ignored.
    let value = rest.split_ascii_whitespace().next().ok_or_else(|| wrong("a value after the labels"))?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        value => value.parse().map_err(|_| wrong("a number as the value"))?,
    };
    Ok(Some(Sample { name, labels, value }))
}

/// Reads labels up to the closing brace, and returns what follows it.
fn read_labels<'t>(mut rest: &'t str, labels: &mut BTreeMap<&'t str, String>) -> Option<&'t str> {
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ',');
        if let Some(behind) = rest.strip_prefix('}') {
            return Some(behind);
        }
        let (name, behind) = rest.split_once('=')?;
        let quoted = behind.trim_start().strip_prefix('"')?;
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        rest = loop {
            match letters.next()? {
                (at, '"') => break &quoted[at + 1..],
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter => letter,
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.insert(name.trim(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(text: &str) -> Result<Snapshot, Missing> {
        read(text, "a page", Clock::start().now())
    }

    /// These lines are in the README of NVIDIA/dcgm-exporter @00d6d344ea4a.
    #[test]
    fn a_figure_that_dcgm_does_not_have_is_not_supported() {
        let page = "# TYPE DCGM_FI_DEV_MEMORY_TEMP gauge\n\
            DCGM_FI_DEV_SM_CLOCK{gpu=\"0\", UUID=\"GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52\"} 139\n\
            DCGM_FI_DEV_MEMORY_TEMP{gpu=\"0\", UUID=\"GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52\"} 9223372036854775794\n";
        let found = poll(page).expect("a GPU is there");
        let gpu = &found.nodes[0].gpus[0];
        assert_eq!(gpu.uuid.as_deref(), Some("GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"));
        assert_eq!(gpu.utilization, Err(Missing::unsaid("a page")));
        let blank = page.replace("DCGM_FI_DEV_MEMORY_TEMP{", "DCGM_FI_DEV_GPU_UTIL{");
        assert_eq!(poll(&blank).expect("read").nodes[0].gpus[0].utilization, Err(Missing::NotSupported));
    }

    /// Lines of GitHub NVIDIA/dcgm-exporter#250 (four V100 on r6i3n0) and #568 (two RTX A4000 shared by pods).
    #[test]
    fn utilization_is_of_the_gpu_of_its_node_and_pod() {
        let page = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a6158b59-2c1e-1e63-0068-9178c4298abd\",device=\"nvidia0\",\
            modelName=\"Tesla V100-SXM2-32GB\",Hostname=\"r6i3n0\"} 0\n\
            DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-ee71aa82-daa8-8d70-fbe8-cd508976034f\",\
            pci_bus_id=\"00000000:41:00.0\",device=\"nvidia0\",modelName=\"NVIDIA RTX A4000\",Hostname=\"xxxxx\",\
            DCGM_FI_DRIVER_VERSION=\"580.82.07\",container=\"xxxx\",namespace=\"xxxx\",pod=\"xxxxx\"} 38\n";
        let found = poll(page).expect("two nodes");
        assert_eq!(found.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["r6i3n0", "xxxxx"]);
        let shared = &found.nodes[1];
        assert_eq!(shared.driver.as_deref(), Some("580.82.07"));
        assert_eq!(shared.gpus[0].utilization, Ok(Permille::new(380)));
        assert_eq!(shared.gpus[0].holder.as_deref(), Some("xxxx/xxxxx"));
        assert_eq!(shared.gpus[0].name.as_deref(), Ok("NVIDIA RTX A4000"));
    }

    /// From GitHub NVIDIA/dcgm-exporter#512: parts of an H100 under MIG have a ratio and no utilization.
    #[test]
    fn parts_of_a_split_gpu_are_gpus_of_their_own() {
        let line = |id: u32| {
            format!(
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu=\"0\",UUID=\"GPU-58e8f5ea-13cc-013a-d88f-2bcf5ae8bc77\",pci_bus_id=\
                 \"00000000:1A:00.0\",device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",GPU_I_PROFILE=\"1g.10gb\",\
                 GPU_I_ID=\"{id}\",Hostname=\"gsrh100-074\",DCGM_FI_DRIVER_VERSION=\"535.129.03\"}} 0.000000\n"
            )
        };
        let found = poll(&(line(7) + &line(8) + &line(9))).expect("three parts");
        let gpus = &found.nodes[0].gpus;
        assert_eq!(gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(gpus[2].utilization, Ok(Permille::ZERO));
        assert_eq!(gpus[2].name.as_deref(), Ok("NVIDIA H100 80GB HBM3 MIG 1g.10gb"));
    }

    /// The lines follow the grammar of prometheus.io/docs/instrumenting/exposition_formats. The timestamp is from its
    /// example.
    #[test]
    fn a_line_is_read_by_the_text_format() {
        let read = |line| sample(line, "a page", 1).expect("a line").expect("a sample");
        let found = read("a:b{x=\"1 \\\"2\\\" \\\\\", y = \"}\" ,} -1.5e3 1395066363000");
        assert!(found.name == "a:b" && (found.value + 1500.0).abs() < f64::EPSILON);
        assert_eq!(found.labels["x"], "1 \"2\" \\");
        assert_eq!(found.labels["y"], "}");
        assert!((read("up 1").value - 1.0).abs() < f64::EPSILON);
        assert!(read("a +Inf").value.is_infinite());
        for broken in ["a", "a{", "a{x} 1", "a{x=\"1} 1", "a{x=\"1\"}", "a{x=\"1\"} many", "{x=\"1\"} 1", "<html>"] {
            assert_eq!(sample(broken, "a page", 3).map(|_| ()).unwrap_err().name(), "malformed", "{broken}");
        }
    }
}

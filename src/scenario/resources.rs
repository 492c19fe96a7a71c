//! `resources:` of a job in the syntax of dstack:
//! `{cpu: 2.., memory: 16GB.., disk: 100GB.., gpu: {name: A100, count: 1..8}}`.

use std::path::Path;
use std::sync::Arc;

use dryrack_catalog::{ComputeCapability, CpuArch, Vendor, dstack_gpu};
use dryrack_units::Bytes;
use dryrack_workload::{Bound, Bounds, GpuRequirements, RangeError, Requirements, check_range, parse_range};
use dryrack_yaml::{Diagnostics, Fields, Node, Report, Span, Tree, parse};

/// dstack's names of processor architectures.
const ARCHES: [(&str, CpuArch); 4] =
    [("x86", CpuArch::X86_64), ("amd64", CpuArch::X86_64), ("arm", CpuArch::Aarch64), ("arm64", CpuArch::Aarch64)];

const VENDORS: [(&str, Vendor); 6] = [
    ("nvidia", Vendor::Nvidia),
    ("amd", Vendor::Amd),
    ("intel", Vendor::Intel),
    ("tenstorrent", Vendor::Tenstorrent),
    ("tt", Vendor::Tenstorrent),
    ("apple", Vendor::Apple),
];

const FIELDS: [&str; 5] = ["cpu", "memory", "shm_size", "gpu", "disk"];
const GPU_FIELDS: [&str; 6] = ["vendor", "name", "count", "memory", "total_memory", "compute_capability"];

/// Reads resources from a separate text in YAML or JSON, such as the field of a record.
pub fn read_resources(name: &str, text: &str) -> Result<Requirements, Diagnostics> {
    let mut report = Report::default();
    let source = report.add_source(Path::new(name).display().to_string(), text);
    let found = parse(text, source, &mut report).map(|tree| read(&tree, &mut report));
    match (found, report.has_errors()) {
        (Some(found), false) => Ok(found),
        _ => Err(report.finish()),
    }
}

/// Reads requirements from `resources:`. Missing fields keep their defaults.
pub(super) fn read(tree: &Tree, report: &mut Report) -> Requirements {
    let mut requirements = Requirements::default();
    let Some(fields) = Fields::read(tree, "resources", &FIELDS, report) else { return requirements };
    if let Some(tree) = fields.get("cpu") {
        let (arch, count) = cpu(tree, report);
        requirements.arch = arch;
        requirements.cpu = count.unwrap_or(requirements.cpu);
    }
    if let Some(range) = fields.get("memory").and_then(|tree| range(tree, "16GB..", report)) {
        requirements.memory = range;
    }
    if let Some(tree) = fields.get("disk") {
        requirements.disk = match tree.is_nothing() {
            true => None,
            false => disk(tree, report).or(requirements.disk),
        };
    }
    if let Some(tree) = fields.get("gpu") {
        requirements.gpu = match tree.is_nothing() {
            true => None,
            false => Some(gpu(tree, report).unwrap_or_default()),
        };
    }
    requirements
}

/// Reads `4..8`, `arm:4..`, or `{arch: arm, count: 4..}`.
fn cpu(tree: &Tree, report: &mut Report) -> (Option<CpuArch>, Option<Bounds<u64>>) {
    if matches!(tree.node, Node::Map(_)) {
        if tree.get("min").is_some() || tree.get("max").is_some() {
            return (None, range(tree, "4..8", report));
        }
        let Some(fields) = Fields::read(tree, "CPUs", &["arch", "count"], report) else { return (None, None) };
        let arch = fields.word("arch", "a processor architecture", &ARCHES, report);
        return (arch, fields.get("count").and_then(|tree| range(tree, "4..8", report)));
    }
    let Some(typed) = tree.scalar() else {
        return (None, range(tree, "4..8", report));
    };
    let (mut arch, mut count) = (None, None);
    for token in tokens(typed) {
        let span = tree.span;
        if token.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
            count = read_range(&token, span, "4..8", report);
        } else {
            let found = ARCHES.iter().find(|(name, _)| token.eq_ignore_ascii_case(name));
            if found.is_none() {
                let message = format!("`{token}` is neither a range of CPUs nor an architecture");
                report.unknown(span, message, &token, ["x86", "arm"].into_iter());
            }
            arch = found.map(|(_, arch)| *arch);
        }
    }
    (arch, count)
}

fn disk(tree: &Tree, report: &mut Report) -> Option<Bounds<Bytes>> {
    match tree.get("size") {
        None => range(tree, "100GB..", report),
        Some(_) => {
            let fields = Fields::read(tree, "a disk", &["size"], report)?;
            range(fields.get("size")?, "100GB..", report)
        }
    }
}

fn gpu(tree: &Tree, report: &mut Report) -> Option<GpuRequirements> {
    // A GPU requirement without a count means at least one GPU.
    let mut gpu = GpuRequirements { count: Bounds::from(1), ..GpuRequirements::default() };
    match &tree.node {
        Node::Map(_) => gpu_fields(tree, &mut gpu, report)?,
        Node::Scalar { text, .. } => gpu_text(text, tree.span, &mut gpu, report),
        Node::List(_) => {
            let message = format!("expected GPUs such as `A100:80GB:1..4`, found {}", tree.kind());
            report.error_with_help(tree.span, message, "write `{name: [A100, H100], count: 1..4}`");
            return None;
        }
    }
    if gpu.vendor.is_none() {
        gpu.vendor = vendor_of(&gpu.names);
    }
    Some(gpu)
}

/// The vendor of all these GPU names, if every name is known and they have the same vendor.
fn vendor_of(names: &[Arc<str>]) -> Option<Vendor> {
    let mut vendors = names.iter().map(|name| {
        dstack_gpu(name).filter(|known| known.name.eq_ignore_ascii_case(name)).and_then(|known| known.vendor)
    });
    let first = vendors.next()??;
    vendors.all(|vendor| vendor == Some(first)).then_some(first)
}

fn gpu_fields(tree: &Tree, gpu: &mut GpuRequirements, report: &mut Report) -> Option<()> {
    let fields = Fields::read(tree, "GPUs", &GPU_FIELDS, report)?;
    gpu.vendor = fields.word("vendor", "a vendor of GPUs", &VENDORS, report);
    gpu.names =
        fields.items("name", "the name of a GPU", report).into_iter().map(|(name, _)| Arc::from(name)).collect();
    let given = |key: &str| fields.get(key).filter(|tree| !tree.is_nothing());
    if let Some(count) = given("count").and_then(|tree| range(tree, "1..8", report)) {
        gpu.count = count;
    }
    gpu.memory = given("memory").and_then(|tree| range(tree, "24GB..", report));
    gpu.total_memory = given("total_memory").and_then(|tree| range(tree, "80GB..", report));
    gpu.compute_capability = given("compute_capability").and_then(|tree| capability(tree, report));
    Some(())
}

fn capability(tree: &Tree, report: &mut Report) -> Option<ComputeCapability> {
    let typed = match &tree.node {
        Node::List(parts) => parts.iter().filter_map(Tree::scalar).collect::<Vec<&str>>().join("."),
        Node::Scalar { text, .. } => text.trim().to_string(),
        Node::Map(_) => String::new(),
    };
    match typed.parse() {
        Ok(capability) => Some(capability),
        Err(_) => {
            report.error_with_help(tree.span, "expected a compute capability such as 8.0", "write `8.0`");
            None
        }
    }
}

/// Reads `nvidia:A100,H100:40GB..80GB:2..`. A part that begins with a letter is a vendor or a list of names. A part
/// with a unit is memory. Any other part is a count.
fn gpu_text(typed: &str, span: Span, gpu: &mut GpuRequirements, report: &mut Report) {
    let mut seen: Vec<&str> = Vec::new();
    for token in tokens(typed) {
        let vendor = VENDORS.iter().find(|(name, _)| token.eq_ignore_ascii_case(name)).map(|(_, vendor)| *vendor);
        let what = if let Some(vendor) = vendor {
            gpu.vendor = Some(vendor);
            "a vendor"
        } else if token.starts_with(char::is_alphabetic) {
            gpu.names = token.split(',').map(Arc::from).collect();
            "names"
        } else if token.contains(char::is_alphabetic) {
            gpu.memory = read_range(&token, span, "24GB..", report);
            "memory"
        } else {
            gpu.count = read_range(&token, span, "1..8", report).unwrap_or(gpu.count);
            "a count"
        };
        if token.is_empty() || gpu.names.iter().any(|name| name.is_empty()) {
            report.error_with_help(span, "a part of the text is empty", "write parts such as `A100:80GB:2`");
        }
        if seen.contains(&what) {
            report.error_with_help(span, format!("`{typed}` has {what} twice"), "write each part once");
        }
        seen.push(what);
    }
}

fn tokens(typed: &str) -> Vec<String> {
    let bare: String = typed.chars().filter(|letter| !letter.is_whitespace()).collect();
    bare.split(':').map(str::to_string).collect()
}

/// Reads `2..8`, `2..`, `..8`, `4`, or `{min: 2, max: 8}`.
fn range<T: Bound>(tree: &Tree, example: &'static str, report: &mut Report) -> Option<Bounds<T>> {
    match &tree.node {
        Node::Scalar { text, .. } if !tree.is_nothing() => read_range(text, tree.span, example, report),
        Node::Map(_) => {
            let fields = Fields::read(tree, "a range", &["min", "max"], report)?;
            let mut end = |key: &str| match fields.get(key).filter(|tree| !tree.is_nothing()) {
                None => Some(None),
                Some(tree) => read_range::<T>(tree.scalar().unwrap_or(""), tree.span, example, report).map(Some),
            };
            let (low, high) = (end("min")?, end("max")?);
            let bounds = Bounds { min: low.and_then(|low| low.min), max: high.and_then(|high| high.max) };
            value_or_report(check_range(bounds, "{min, max}"), tree.span, example, report)
        }
        Node::Scalar { .. } | Node::List(_) => {
            let message = format!("expected a range such as {example}, found {}", tree.kind());
            report.error_with_help(tree.span, message, format!("write `{example}`"));
            None
        }
    }
}

fn read_range<T: Bound>(text: &str, span: Span, example: &str, report: &mut Report) -> Option<Bounds<T>> {
    value_or_report(parse_range(text), span, example, report)
}

fn value_or_report<T: Bound>(
    found: Result<Bounds<T>, RangeError>,
    span: Span,
    example: &str,
    report: &mut Report,
) -> Option<Bounds<T>> {
    match found {
        Ok(bounds) => Some(bounds),
        Err(error) => {
            report.error_with_help(span, error.to_string(), format!("write a range such as `{example}`"));
            None
        }
    }
}

//! Which program can serve which model on which hardware. Each row of `compatibility.csv` is one fact from the
//! program's own documentation or source code.
//!
//! A missing fact never causes a mismatch. A GPU without a known vendor, a node without a known driver, and a model
//! without a known architecture all pass the checks.

use std::sync::LazyLock;

use serde::Serialize;

use super::kind::{ComputeCapability, CpuArch, Os, Server, Vendor};
use super::row::{Row, rows};

/// The kind of fact in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// There is a build of the program for this operating system, processor and GPU vendor. Without a vendor, the build
    /// uses no GPU.
    Platform,
    /// The program can serve this quantization on GPUs of this vendor.
    Quantization,
    /// The program supports these model architectures.
    Architecture,
}

/// A row of `compatibility.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compatibility {
    pub backend: Server,
    pub kind: Kind,
    /// The names of quantizations or architectures. Empty for a platform.
    pub names: Vec<&'static str>,
    pub os: Option<Os>,
    pub arch: Option<CpuArch>,
    pub vendor: Option<Vendor>,
    /// The minimum compute capability.
    pub compute_capability: Option<ComputeCapability>,
    /// The supported GPU architectures. If the list is empty, all are supported.
    pub gpu_architectures: Vec<&'static str>,
    /// The vendor's runtime for which the build was made: `cuda 12.9`.
    pub runtime: Option<&'static str>,
    /// The oldest driver with which the build runs.
    pub driver: Option<&'static str>,
    pub source: &'static str,
    /// The date of the source, as YYYY-MM-DD.
    pub as_of: &'static str,
}

/// The known properties of a node.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    pub os: Os,
    pub arch: CpuArch,
    pub driver: Option<&'a str>,
    /// The version of CUDA, ROCm or CANN that the driver supports.
    pub runtime: Option<&'a str>,
}

/// The known properties of a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accelerator<'a> {
    pub vendor: Option<Vendor>,
    pub compute_capability: Option<ComputeCapability>,
    pub architecture: Option<&'a str>,
}

/// The model to serve, and the program that serves it.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    pub backend: Server,
    pub architecture: Option<&'a str>,
    pub quantization: Option<&'a str>,
}

/// Why a model cannot be served. The order is the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// The program does not know the model's architecture.
    ModelArchitecture,
    /// There is no build for this operating system.
    Os,
    /// There is no build for this processor.
    Arch,
    /// There is no build for GPUs of this vendor. For a host without a GPU, there is no build that runs without one.
    Vendor,
    /// The build needs a higher compute capability than the GPU has.
    ComputeCapability,
    /// The build does not support GPUs of this architecture.
    GpuArchitecture,
    /// The build needs a newer driver.
    Driver,
    /// The build needs a later major version of CUDA, ROCm or CANN than the driver supports. Minor versions need not
    /// match (PyPI gpustack 2.3.0, `gpustack/utils/version.py`, `pick_runtime_version`).
    Runtime,
    /// The program cannot serve this quantization on such a GPU.
    Quantization,
}

static COMPATIBILITIES: LazyLock<Vec<Compatibility>> = LazyLock::new(|| {
    let file = include_str!("compatibility.csv");
    rows("compatibility.csv", file).map(row_from).collect()
});

/// All rows. For each program, first its platforms, then its quantizations, then its architectures.
pub fn compatibilities() -> &'static [Compatibility] {
    &COMPATIBILITIES
}

/// Why the model cannot be served on this GPU of the host, or on the host without a GPU if `gpu` is `None`. Returns
/// `None` if it can be served. If no build fits, returns the mismatch of the build that passes the most checks.
pub fn mismatch(served: Served<'_>, host: Host<'_>, gpu: Option<Accelerator<'_>>) -> Option<Mismatch> {
    let of_kind = |kind| compatibilities().iter().filter(move |row| (row.backend, row.kind) == (served.backend, kind));
    if let Some(architecture) = served.architecture {
        let mut lists = of_kind(Kind::Architecture).peekable();
        if lists.peek().is_some() && !lists.any(|row| row.names.contains(&architecture)) {
            return Some(Mismatch::ModelArchitecture);
        }
    }
    // If no build fits, report the mismatch of the build that passes the most checks.
    let refusals: Option<Vec<Mismatch>> = of_kind(Kind::Platform).map(|row| refused_by(row, host, gpu)).collect();
    if let Some(refusals) = refusals {
        return refusals.into_iter().max();
    }
    let (Some(quantization), Some(gpu)) = (served.quantization, gpu) else { return None };
    let mut listed = of_kind(Kind::Quantization).peekable();
    listed.peek()?;
    let serves = |row: &Compatibility| {
        row.names.contains(&quantization) && is_of(row.vendor, gpu.vendor) && is_capable(row, gpu)
    };
    (!listed.any(serves)).then_some(Mismatch::Quantization)
}

/// Why the build does not run on this host and GPU. `None` if it runs.
fn refused_by(row: &Compatibility, host: Host<'_>, gpu: Option<Accelerator<'_>>) -> Option<Mismatch> {
    if row.os.is_some_and(|os| os != host.os) {
        return Some(Mismatch::Os);
    }
    if row.arch.is_some_and(|arch| arch != host.arch) {
        return Some(Mismatch::Arch);
    }
    let Some(gpu) = gpu else { return row.vendor.map(|_| Mismatch::Vendor) };
    if row.vendor.is_none() || !is_of(row.vendor, gpu.vendor) {
        return Some(Mismatch::Vendor);
    }
    if !is_capable(row, gpu) {
        return Some(Mismatch::ComputeCapability);
    }
    let known = |architecture: &str| row.gpu_architectures.is_empty() || row.gpu_architectures.contains(&architecture);
    if gpu.architecture.is_some_and(|architecture| !known(architecture)) {
        return Some(Mismatch::GpuArchitecture);
    }
    let (least, has) = (row.driver.and_then(version), host.driver.and_then(version));
    if least.zip(has).is_some_and(|(least, has)| has < least) {
        return Some(Mismatch::Driver);
    }
    let built_for = row.runtime.and_then(|runtime| major(runtime.split(' ').nth(1)?));
    let runs = host.runtime.and_then(major);
    built_for.zip(runs).is_some_and(|(built_for, runs)| runs < built_for).then_some(Mismatch::Runtime)
}

/// The major version: `12` for `12.9`.
fn major(text: &str) -> Option<u32> {
    version(text)?.first().copied()
}

fn is_of(wanted: Option<Vendor>, vendor: Option<Vendor>) -> bool {
    vendor.is_none_or(|vendor| wanted == Some(vendor))
}

fn is_capable(row: &Compatibility, gpu: Accelerator<'_>) -> bool {
    row.compute_capability.is_none_or(|least| gpu.compute_capability.is_none_or(|has| has >= least))
}

/// Parses a version such as `550.54.14` as numbers. `None` if the text has another form.
fn version(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

fn row_from(row: Row) -> Compatibility {
    let said = |column| Some(row.text(column)).filter(|text| !text.is_empty());
    Compatibility {
        backend: row.required("backend"),
        kind: match row.text("kind") {
            "platform" => Kind::Platform,
            "quantization" => Kind::Quantization,
            "architecture" => Kind::Architecture,
            other => panic!("{}: `{other}` is not a kind of row", row.place),
        },
        names: row.list("name").collect(),
        os: row.optional("os"),
        arch: row.optional("arch"),
        vendor: row.optional("vendor"),
        compute_capability: row.optional("compute_capability"),
        gpu_architectures: row.list("gpu_architectures").collect(),
        runtime: said("runtime"),
        driver: said("driver"),
        source: row.text("source"),
        as_of: row.text("as_of"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gpu, models};

    fn on(backend: Server, os: Os, arch: CpuArch, name: &str) -> Option<Mismatch> {
        let served = Served { backend, architecture: Some("Qwen3ForCausalLM"), quantization: None };
        mismatch(served, Host { os, arch, driver: None, runtime: None }, Some(known(name)))
    }

    fn known(name: &str) -> Accelerator<'static> {
        let model = gpu(name).unwrap();
        Accelerator {
            vendor: Some(model.vendor),
            compute_capability: model.compute_capability,
            architecture: model.architecture,
        }
    }

    #[test]
    fn vllm_runs_on_linux_with_new_enough_gpus_and_llama_box_on_a_mac() {
        use {CpuArch::*, Os::*};
        // From vLLM's requirements page: Linux; compute capability 7.5 or higher; MI300; Radeon RX 7900 (gfx1100,
        // gfx1101).
        assert_eq!(on(Server::Vllm, Linux, X86_64, "a100-80g"), None);
        assert_eq!(on(Server::Vllm, Linux, X86_64, "mi300x"), None);
        assert_eq!(on(Server::Vllm, Linux, Aarch64, "ascend-910b"), None);
        assert_eq!(on(Server::Vllm, Linux, X86_64, "p100-16g"), Some(Mismatch::ComputeCapability));
        assert_eq!(on(Server::Vllm, Linux, Aarch64, "mi300x"), Some(Mismatch::Vendor));
        assert_eq!(on(Server::Vllm, Darwin, Aarch64, "m2-ultra"), Some(Mismatch::Os));
        assert_eq!(on(Server::Vllm, Windows, X86_64, "rtx-4090"), Some(Mismatch::Os));
        assert_eq!(on(Server::LlamaBox, Darwin, Aarch64, "m2-ultra"), None);
        assert_eq!(on(Server::LlamaBox, Linux, Aarch64, "m2-ultra"), Some(Mismatch::Vendor));
    }

    #[test]
    fn an_old_driver_a_strange_quantization_and_an_unknown_architecture_are_told_apart() {
        let host = |driver| Host { os: Os::Linux, arch: CpuArch::X86_64, driver: Some(driver), runtime: None };
        let ask = |quantization, architecture, driver, name| {
            let served = Served { backend: Server::Vllm, architecture: Some(architecture), quantization };
            mismatch(served, host(driver), Some(known(name)))
        };
        assert_eq!(ask(None, "Qwen3ForCausalLM", "470.82.01", "a100-80g"), Some(Mismatch::Driver));
        assert_eq!(ask(None, "Qwen3ForCausalLM", "525.60.13", "a100-80g"), None);
        assert_eq!(ask(None, "Qwen3ForCausalLM", "R550", "a100-80g"), None);
        assert_eq!(ask(Some("awq"), "Qwen3ForCausalLM", "550.54.14", "a100-80g"), None);
        assert_eq!(ask(Some("mxfp4"), "GptOssForCausalLM", "550.54.14", "t4"), Some(Mismatch::Quantization));
        assert_eq!(ask(Some("exl2"), "Qwen3ForCausalLM", "550.54.14", "a100-80g"), Some(Mismatch::Quantization));
        assert_eq!(ask(None, "NobodysModel", "470.82.01", "p100-16g"), Some(Mismatch::ModelArchitecture));
    }

    #[test]
    fn a_build_runs_with_its_own_major_version_of_cuda_and_with_later_ones() {
        let ask = |runtime, name| {
            let served = Served { backend: Server::Vllm, architecture: None, quantization: None };
            let host = Host { os: Os::Linux, arch: CpuArch::X86_64, driver: None, runtime: Some(runtime) };
            mismatch(served, host, Some(known(name)))
        };
        // The builds are for CUDA 12.9 and for ROCm 7.2.
        assert_eq!(ask("11.8", "a100-80g"), Some(Mismatch::Runtime));
        for runtime in ["12.4", "12.9", "13.0", "as delivered"] {
            assert_eq!(ask(runtime, "a100-80g"), None);
        }
        assert_eq!((ask("6.4", "mi300x"), ask("7.0", "mi300x")), (Some(Mismatch::Runtime), None));
    }

    #[test]
    fn vllm_serves_every_model_of_the_catalog_on_an_h100() {
        for model in models() {
            let served =
                Served { backend: Server::Vllm, architecture: model.architecture, quantization: model.quantization };
            let host = Host { os: Os::Linux, arch: CpuArch::X86_64, driver: None, runtime: None };
            assert_eq!(mismatch(served, host, Some(known("h100-80g"))), None, "{}", model.name);
        }
    }

    #[test]
    fn a_gpu_is_needed_but_where_there_is_a_build_without() {
        let host = Host { os: Os::Linux, arch: CpuArch::X86_64, driver: None, runtime: None };
        let ask = |backend| mismatch(Served { backend, architecture: None, quantization: None }, host, None);
        assert_eq!(ask(Server::Vllm), Some(Mismatch::Vendor));
        assert_eq!(ask(Server::LlamaBox), None);
    }

    #[test]
    fn every_row_says_what_it_is_about_and_where_it_comes_from() {
        for row in compatibilities() {
            assert!(row.source.len() >= 10, "{row:?}");
            assert_eq!(row.kind == Kind::Platform, row.names.is_empty(), "{row:?}");
            assert_eq!(row.kind == Kind::Platform, row.os.is_some() && row.arch.is_some(), "{row:?}");
            assert_eq!(row.driver.map(version).is_some(), row.driver.is_some(), "{row:?}");
        }
    }
}

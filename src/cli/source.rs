//! `--from`: the source of readings on the command line, and the probe for it.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::exit::Failure;
use dryrack_live::clock::Clock;
use dryrack_live::probe::{
    Dstack, Exporter, GpuSource, Gpustack, Guarded, Kubernetes, Probe, Roots, Slurm, ThisMachine,
};
use dryrack_units::SimDuration;

#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Source of readings: this-machine, slurm, kubernetes, gpustack, dstack, or the address of a Prometheus or DCGM
    /// exporter
    #[arg(long, value_name = "SOURCE", default_value = "this-machine")]
    from: String,
    /// Address of the GPUStack or dstack server [default: $GPUSTACK_SERVER_URL, $DSTACK_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Project of dstack [default: $DSTACK_PROJECT, or main]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Environment variable that holds the token [default: GPUSTACK_API_KEY, DSTACK_TOKEN]
    #[arg(long, value_name = "VARIABLE")]
    token_env: Option<String>,
    /// For this-machine: method of finding its GPUs
    #[arg(long, value_name = "WAY", value_enum, default_value = "any")]
    gpus: GpuSourceArg,
    /// For this-machine: folder with its /proc and /sys, for a container that mounts those of the host [default: /]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Time limit for one reading
    #[arg(long, value_name = "TIME")]
    within: Option<SimDuration>,
}

/// [`GpuSource`], as a command-line value.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GpuSourceArg {
    Any,
    Nvml,
    NvidiaSmi,
    AmdSmi,
    AmdSysfs,
    HlSmi,
    None,
}

const SOURCES: [&str; 5] = ["this-machine", "slurm", "kubernetes", "gpustack", "dstack"];

impl SourceArgs {
    pub fn within(&self, usual: SimDuration) -> SimDuration {
        self.within.filter(|within| !within.is_zero()).unwrap_or(usual)
    }

    /// The probe, running on its own thread.
    pub fn probe(&self, clock: &Arc<Clock>) -> Result<Guarded, Failure> {
        Ok(Guarded::new(self.bare()?, Arc::clone(clock)))
    }

    fn bare(&self) -> Result<Box<dyn Probe>, Failure> {
        let token = |usual: &str| std::env::var(self.token_env.as_deref().unwrap_or(usual)).ok();
        Ok(match self.from.as_str() {
            "this-machine" => Box::new(ThisMachine::new(self.roots()?, self.way())),
            "slurm" => Box::new(Slurm::default()),
            "kubernetes" => Box::new(Kubernetes::default()),
            "gpustack" => {
                let url = self.server("GPUSTACK_SERVER_URL")?;
                Box::new(Gpustack::new(&url, token("GPUSTACK_API_KEY").as_deref()))
            }
            "dstack" => {
                let url = self.server("DSTACK_URL")?;
                let own = self.project.clone().or_else(|| std::env::var("DSTACK_PROJECT").ok());
                let project = own.unwrap_or_else(|| "main".to_string());
                if project.is_empty()
                    || !project.chars().all(|letter| letter.is_alphanumeric() || "-_".contains(letter))
                {
                    return Err(Failure::Input(format!("error: --project: `{project}` is no name of a project")));
                }
                Box::new(Dstack::new(&url, &project, token("DSTACK_TOKEN").as_deref()))
            }
            url if url.starts_with("http://") || url.starts_with("https://") => {
                let token = self.token_env.as_ref().and_then(|name| std::env::var(name).ok());
                Box::new(Exporter::new(url, token.as_deref()))
            }
            other => {
                let help = match dryrack_nearest::nearest(other, SOURCES) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("write {}, or an address such as http://localhost:9400/metrics", SOURCES.join(", "))
                    }
                };
                return Err(Failure::Input(format!("error: --from: there is no source `{other}`; {help}")));
            }
        })
    }

    fn server(&self, variable: &str) -> Result<String, Failure> {
        let url = self.url.clone().or_else(|| std::env::var(variable).ok());
        url.ok_or_else(|| {
            let from = &self.from;
            Failure::Input(format!("error: --from {from}: where is the server? add --url, or set {variable}"))
        })
    }

    fn roots(&self) -> Result<Roots, Failure> {
        let Some(root) = &self.root else { return Ok(Roots::default()) };
        let roots = Roots { proc: root.join("proc"), sys: root.join("sys") };
        if !roots.proc.is_dir() && !roots.sys.is_dir() {
            let expected = "expected a folder with `proc` or `sys` in it, such as /host";
            return Err(Failure::Input(format!("error: --root: `{}` has neither; {expected}", root.display())));
        }
        Ok(roots)
    }

    fn way(&self) -> GpuSource {
        match self.gpus {
            GpuSourceArg::Any => GpuSource::Any,
            GpuSourceArg::Nvml => GpuSource::Nvml,
            GpuSourceArg::NvidiaSmi => GpuSource::NvidiaSmi,
            GpuSourceArg::AmdSmi => GpuSource::AmdSmi,
            GpuSourceArg::AmdSysfs => GpuSource::AmdSysfs,
            GpuSourceArg::HlSmi => GpuSource::HlSmi,
            GpuSourceArg::None => GpuSource::None,
        }
    }

    /// Whether the source is a scheduler, which knows who holds a GPU even if the GPU is idle.
    pub fn is_scheduler(&self) -> bool {
        matches!(self.from.as_str(), "slurm" | "kubernetes" | "gpustack" | "dstack")
    }

    pub fn from(&self) -> &str {
        &self.from
    }
}

//! `--from`: the source of readings on the command line, and the probe for it.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::exit::Failure;
use dryrack_live::clock::{Clock, Stamp, std_duration};
use dryrack_live::probe::{Exporter, GpuSource, Guarded, Probe, SOURCES, Snapshot, Source, SourceOptions};
use dryrack_live::stop::Stop;
use dryrack_units::SimDuration;

/// The source if the command line names none.
const USUAL: &str = "this-machine";

#[derive(Debug, Args)]
pub struct SourceArgs {
    #[arg(long, value_name = "SOURCE", help = help())]
    from: Option<String>,
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
    #[arg(long, value_name = "METHOD", value_enum, default_value = "any")]
    gpus: GpuSourceArg,
    /// For this-machine: folder with its /proc and /sys, for a container that mounts those of the host [default: /]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// For kubernetes: context of the kubectl configuration [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// For kubernetes: configuration file of kubectl [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
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

fn help() -> String {
    format!("Source of readings: {}, or the address of a Prometheus or DCGM exporter [default: {USUAL}]", names())
}

/// The names of all sources, separated by commas.
fn names() -> String {
    SOURCES.each_ref().map(|source| source.name).join(", ")
}

impl SourceArgs {
    pub fn within(&self, usual: SimDuration) -> SimDuration {
        self.within.filter(|within| !within.is_zero()).unwrap_or(usual)
    }

    /// The probe, running on its own thread.
    pub fn probe(&self, clock: &Arc<Clock>) -> Result<Guarded, Failure> {
        Ok(Guarded::new(self.bare()?, Arc::clone(clock)))
    }

    /// Reads the machines once, within the stated time limit or 30 s. Also returns the time of the reading.
    pub fn read(&self) -> Result<(Snapshot, Stamp), Failure> {
        let clock = Arc::new(Clock::start());
        let within = std_duration(self.within(SimDuration::from_secs(30)));
        let polled = self.probe(&clock)?.poll_unless(&Stop::on_signals()?, within);
        let at = clock.now();
        let snapshot = polled.map_err(|missing| Failure::Input(format!("error: {missing} ({})", missing.name())))?;
        Ok((snapshot, at))
    }

    fn bare(&self) -> Result<Box<dyn Probe>, Failure> {
        let error = |text: String| Failure::Input(format!("error: {text}"));
        if let Some(source) = Source::named(self.from()) {
            return source.open(&self.options()).map_err(error);
        }
        if self.from().starts_with("http://") || self.from().starts_with("https://") {
            let token = self.token_env.as_ref().and_then(|name| std::env::var(name).ok());
            return Ok(Box::new(Exporter::new(self.from(), token.as_deref())));
        }
        let help = match dryrack_nearest::nearest(self.from(), SOURCES.iter().map(|source| source.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write {}, or an address such as http://localhost:9400/metrics", names()),
        };
        Err(error(format!("--from: there is no source `{}`; {help}", self.from())))
    }

    pub fn options(&self) -> SourceOptions {
        SourceOptions {
            url: self.url.clone(),
            project: self.project.clone(),
            token_env: self.token_env.clone(),
            gpus: self.way(),
            root: self.root.clone(),
            context: self.context.clone(),
            kubeconfig: self.kubeconfig.clone(),
        }
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
        Source::named(self.from()).is_some_and(|source| source.is_scheduler)
    }

    pub fn from(&self) -> &str {
        self.from.as_deref().unwrap_or(USUAL)
    }

    /// Whether the command line names a source.
    pub fn is_given(&self) -> bool {
        self.from.is_some()
    }
}

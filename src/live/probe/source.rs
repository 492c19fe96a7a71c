//! The sources by name, as `--from` takes them. A new source is a file in `source/`, with its `mod` line here and one
//! row of the table.

use std::path::PathBuf;

use super::{Dstack, GpuSource, Gpustack, Kubernetes, Probe, Roots, Slurm, ThisMachine};

/// What is stated about a source besides its name. Each source reads what it needs.
#[derive(Debug)]
pub struct SourceOptions {
    /// The address of a server.
    pub url: Option<String>,
    /// The project on the server.
    pub project: Option<String>,
    /// The environment variable that holds the token.
    pub token_env: Option<String>,
    /// How this machine's GPUs are found.
    pub gpus: GpuSource,
    /// The folder with this machine's /proc and /sys.
    pub root: Option<PathBuf>,
    /// The context and the configuration file of kubectl.
    pub context: Option<String>,
    pub kubeconfig: Option<PathBuf>,
}

/// A source of readings that has a name.
pub struct Source {
    pub name: &'static str,
    /// Whether the source is a scheduler, which knows who holds a GPU even if the GPU is idle.
    pub is_scheduler: bool,
    open: fn(&SourceOptions) -> Result<Box<dyn Probe>, String>,
}

pub const SOURCES: [Source; 5] = [
    Source { name: "this-machine", is_scheduler: false, open: this_machine },
    Source { name: "slurm", is_scheduler: true, open: |_| Ok(Box::new(Slurm::default())) },
    Source { name: "kubernetes", is_scheduler: true, open: |options| Ok(Box::new(Kubernetes::of(options))) },
    Source { name: "gpustack", is_scheduler: true, open: gpustack },
    Source { name: "dstack", is_scheduler: true, open: dstack },
];

impl Source {
    pub fn named(name: &str) -> Option<&'static Source> {
        SOURCES.iter().find(|source| source.name == name)
    }

    /// # Errors
    /// The flag or variable that the source needs and does not have.
    pub fn open(&self, options: &SourceOptions) -> Result<Box<dyn Probe>, String> {
        (self.open)(options)
    }
}

impl SourceOptions {
    /// The value of the token's variable: the stated one, or else the usual one of the source.
    fn token(&self, usual: &str) -> Option<String> {
        std::env::var(self.token_env.as_deref().unwrap_or(usual)).ok()
    }

    fn server(&self, from: &str, variable: &str) -> Result<String, String> {
        let url = self.url.clone().or_else(|| std::env::var(variable).ok());
        url.ok_or_else(|| format!("--from {from}: the address of the server is missing; add --url, or set {variable}"))
    }
}

fn this_machine(options: &SourceOptions) -> Result<Box<dyn Probe>, String> {
    let Some(root) = &options.root else { return Ok(Box::new(ThisMachine::new(Roots::default(), options.gpus))) };
    let roots = Roots { proc: root.join("proc"), sys: root.join("sys") };
    if !roots.proc.is_dir() && !roots.sys.is_dir() {
        let expected = "expected a folder that contains `proc` or `sys`, such as /host";
        return Err(format!("--root: `{}` contains neither; {expected}", root.display()));
    }
    Ok(Box::new(ThisMachine::new(roots, options.gpus)))
}

fn gpustack(options: &SourceOptions) -> Result<Box<dyn Probe>, String> {
    let url = options.server("gpustack", "GPUSTACK_SERVER_URL")?;
    Ok(Box::new(Gpustack::new(&url, options.token("GPUSTACK_API_KEY").as_deref())))
}

fn dstack(options: &SourceOptions) -> Result<Box<dyn Probe>, String> {
    let url = options.server("dstack", "DSTACK_URL")?;
    let own = options.project.clone().or_else(|| std::env::var("DSTACK_PROJECT").ok());
    let project = own.unwrap_or_else(|| "main".to_string());
    if project.is_empty() || !project.chars().all(|letter| letter.is_alphanumeric() || "-_".contains(letter)) {
        return Err(format!("--project: `{project}` is not a valid project name"));
    }
    Ok(Box::new(Dstack::new(&url, &project, options.token("DSTACK_TOKEN").as_deref())))
}

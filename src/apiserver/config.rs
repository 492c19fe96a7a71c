//! How the program is configured: its release, its configuration file and its flags.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;

use serde_json::{Map, Value, json};
use thiserror::Error;

/// A release of Kubernetes, from `kube-scheduler --version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// As the program states it, such as `v1.20.2`.
    pub text: String,
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_start_matches('v'))
    }
}

impl Release {
    /// Reads `Kubernetes v1.20.2`. Builds of a vendor add to it, as in `v1.31.4-eks-7f9249a`.
    pub fn parse(said: &str) -> Option<Release> {
        let text = said.split_whitespace().find(|word| word.starts_with('v') && word.contains('.'))?;
        let mut numbers = text[1..].split(['.', '-', '+']);
        let mut next = || numbers.next()?.parse().ok();
        Some(Release { text: text.to_owned(), major: next()?, minor: next()? })
    }

    /// The version of `KubeSchedulerConfiguration` that the release reads.
    fn configuration(&self) -> &'static str {
        match self.minor {
            0..=18 => "v1alpha2",
            19..=21 => "v1beta1",
            22 => "v1beta2",
            23..=24 => "v1beta3",
            _ => "v1",
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("the configuration is no object")]
    NotAnObject,
    #[error("the configuration has the kind {0}; KubeSchedulerConfiguration was expected")]
    OtherKind(String),
    #[error("a back-off of kube-scheduler is at least one second, and the first is not longer than the longest")]
    Backoff,
}

/// What the scenario sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Seconds of the program's own time before a pod that did not fit is tried again. It doubles with each attempt.
    pub initial_backoff: u64,
    pub max_backoff: u64,
    /// `None` leaves the release's own rule, which examines a part of the nodes from 100 nodes on.
    pub percentage_of_nodes_to_score: Option<u64>,
    /// A `KubeSchedulerConfiguration` of the user's own, with plugins and profiles. Its back-offs are used if it has any.
    pub own: Option<Value>,
    /// Flags of the program besides `--config` and `--secure-port`.
    pub flags: Vec<String>,
}

impl Default for Config {
    /// The back-offs that kube-scheduler has by default.
    fn default() -> Config {
        Config { initial_backoff: 1, max_backoff: 10, percentage_of_nodes_to_score: None, own: None, flags: Vec::new() }
    }
}

impl Config {
    /// Takes the back-offs from the user's own configuration, if it has any.
    ///
    /// # Errors
    /// If the user's own configuration is not one, or if a back-off is not possible.
    pub fn resolve(mut self) -> Result<Config, ConfigError> {
        if let Some(own) = &self.own {
            if !own.is_object() {
                return Err(ConfigError::NotAnObject);
            }
            match own["kind"].as_str() {
                Some("KubeSchedulerConfiguration") | None => {}
                Some(other) => return Err(ConfigError::OtherKind(other.to_owned())),
            }
            self.initial_backoff = own["podInitialBackoffSeconds"].as_u64().unwrap_or(self.initial_backoff);
            self.max_backoff = own["podMaxBackoffSeconds"].as_u64().unwrap_or(self.max_backoff);
        }
        match self.initial_backoff >= 1 && self.max_backoff >= self.initial_backoff {
            true => Ok(self),
            false => Err(ConfigError::Backoff),
        }
    }

    /// The names of the schedulers that the program is.
    pub fn scheduler_names(&self) -> Vec<String> {
        let profiles = self.own.as_ref().and_then(|own| own["profiles"].as_array());
        let name = |profile: &Value| profile["schedulerName"].as_str().unwrap_or(DEFAULT_NAME).to_owned();
        match profiles.filter(|profiles| !profiles.is_empty()) {
            Some(profiles) => profiles.iter().map(name).collect(),
            None => vec![DEFAULT_NAME.to_owned()],
        }
    }

    /// The text of the configuration file. How the server is reached is always ours. Releases until 1.22 need a port for
    /// metrics and health, on this address.
    pub(crate) fn file(&self, release: &Release, kubeconfig: &Path, loopback: Ipv4Addr) -> String {
        let mut file = self.own.clone().unwrap_or_else(|| Value::Object(Map::new()));
        let own_version = file["apiVersion"].as_str().map(str::to_owned);
        let version = own_version.unwrap_or_else(|| format!("kubescheduler.config.k8s.io/{}", release.configuration()));
        file["apiVersion"] = Value::from(version);
        file["kind"] = Value::from("KubeSchedulerConfiguration");
        file["leaderElection"] = json!({"leaderElect": false});
        file["clientConnection"] = json!({
            "kubeconfig": kubeconfig.to_string_lossy(),
            "contentType": "application/json",
            "acceptContentTypes": "application/json",
            "qps": 100_000,
            "burst": 100_000,
        });
        if release.minor <= 22 {
            for field in ["healthzBindAddress", "metricsBindAddress"] {
                file[field] = Value::from(format!("{loopback}:{HEALTH_PORT}"));
            }
        }
        file["podInitialBackoffSeconds"] = Value::from(self.initial_backoff);
        file["podMaxBackoffSeconds"] = Value::from(self.max_backoff);
        if let Some(share) = self.percentage_of_nodes_to_score {
            file["percentageOfNodesToScore"] = Value::from(share);
        }
        format!("{file:#}\n")
    }

    /// The flags. Ours come last, so that they hold. The program serves no HTTPS.
    pub(crate) fn all_flags(&self, file: &Path) -> Vec<String> {
        let ours = [format!("--config={}", file.display()), "--secure-port=0".to_owned()];
        self.flags.iter().cloned().chain(ours).collect()
    }
}

/// The insecure port of kube-scheduler until 1.22.
const HEALTH_PORT: u16 = 10251;

const DEFAULT_NAME: &str = "default-scheduler";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Config, ConfigError, Release};

    #[test]
    fn a_release_is_read_from_what_the_program_says() {
        for (said, expected) in [
            ("Kubernetes v1.20.2\n", Some((1, 20))),
            ("Kubernetes v1.31.4-eks-7f9249a", Some((1, 31))),
            ("Kubernetes v1.36.0+k3s1", Some((1, 36))),
            ("Kubernetes", None),
        ] {
            let found = Release::parse(said).map(|release| (release.major, release.minor));
            assert_eq!(found, expected, "{said}");
        }
    }

    #[test]
    fn the_users_own_configuration_keeps_its_plugins_and_back_offs() {
        let own = json!({"podInitialBackoffSeconds": 3, "profiles": [{"schedulerName": "gpu"}],
            "clientConnection": {"kubeconfig": "elsewhere"}});
        let config = Config { own: Some(own), ..Config::default() }.resolve().unwrap();
        assert_eq!((config.initial_backoff, config.max_backoff), (3, 10));
        assert_eq!(config.scheduler_names(), ["gpu"]);
        let release = Release::parse("Kubernetes v1.35.4").unwrap();
        let file: serde_json::Value =
            serde_json::from_str(&config.file(&release, std::path::Path::new("here"), std::net::Ipv4Addr::LOCALHOST))
                .unwrap();
        assert_eq!(file["clientConnection"]["kubeconfig"], "here");
        assert_eq!(file["profiles"][0]["schedulerName"], "gpu");
        assert_eq!(file["apiVersion"], "kubescheduler.config.k8s.io/v1");
    }

    #[test]
    fn a_configuration_that_cannot_be_used_is_refused() {
        for (own, expected) in [
            (json!([]), ConfigError::NotAnObject),
            (json!({"kind": "Pod"}), ConfigError::OtherKind("Pod".to_owned())),
            (json!({"podInitialBackoffSeconds": 0}), ConfigError::Backoff),
        ] {
            assert_eq!(Config { own: Some(own), ..Config::default() }.resolve(), Err(expected));
        }
    }
}

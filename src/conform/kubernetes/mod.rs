//! Records of kube-scheduler: clusters, pods in the order in which they were scheduled, and every attempt with the
//! reasons of each node, the scores of each plugin and the victims of preemption.
//!
//! Each attempt is one answer. The recorded choice is carried out before the next attempt. So after a difference, later
//! attempts can still be equal.

mod compare;
mod record;
mod replay;

use super::kind::{Compared, Comparison, RecordFields, RecordKind, parse};
use super::profiles::Profiles;
use dryrack_kubernetes::cluster::Resource;
use dryrack_kubernetes::cycle::{ScoringStrategy, Strategy};
use record::{Record, Step};
use replay::Replay;

pub struct Kubernetes;

/// The release that was recorded. Its profile is that of the minor release.
const VERSION: &str = "1.35.4";
const MINOR: &str = "1.35";

impl RecordKind for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["world", "expect"]
    }

    fn compare(&self, record: &RecordFields, _: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String> {
        let Record { id, class, world, expect } = parse::<Record>(record)?;
        let mut compared = Vec::new();
        for (name, steps) in expect {
            let scoring = scoring(&name).ok_or_else(|| format!("`{name}` is no profile of these records"))?;
            let add = |step: &Step, result| Compared {
                id: format!("{id}, {name}, {}, attempt {}", step.pod, step.attempt),
                class: class.clone(),
                version: VERSION.to_string(),
                result,
            };
            let chosen = profiles.choose("kubernetes", [MINOR]).pop().and_then(|(_, profile)| profile.ok());
            let Some(rules) = chosen.as_ref().and_then(|profile| profile.flow.kubernetes()) else {
                let not_asked = || Comparison::NotAsked { profile: format!("kubernetes-{MINOR}") };
                compared.extend(steps.iter().map(|step| add(step, not_asked())));
                continue;
            };
            let mut profile = rules.scheduler.clone();
            if let Some(scoring) = scoring {
                profile.fit = scoring;
            }
            let mut replay = Replay::new(&world, profile, class == "gang")?;
            for step in &steps {
                let found = replay.step(step)?;
                compared.push(add(step, Comparison::Asked(compare::differences(step, &found))));
            }
        }
        Ok(compared)
    }
}

/// The profiles that were recorded differ in the scoring of `NodeResourcesFit`: `Some(None)` is that of the default.
fn scoring(name: &str) -> Option<Option<ScoringStrategy>> {
    let weights = |cpu, memory, gpu| {
        let gpu_name = std::sync::Arc::from("nvidia.com/gpu");
        vec![(Resource::Cpu, cpu), (Resource::Memory, memory), (Resource::Extended(gpu_name), gpu)]
    };
    let ratio = |shape: &[(i64, i64)]| Strategy::RequestedToCapacityRatio(shape.to_vec());
    Some(match name {
        "default" => None,
        "most" => Some(ScoringStrategy { kind: Strategy::MostAllocated, resources: weights(1, 1, 5) }),
        "rtcr" => Some(ScoringStrategy { kind: ratio(&[(0, 0), (100, 10)]), resources: weights(1, 1, 5) }),
        "rtcrbend" => {
            let kind = ratio(&[(0, 2), (40, 10), (80, 4), (100, 0)]);
            Some(ScoringStrategy { kind, resources: weights(2, 1, 3) })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dryrack_kubernetes::cycle::{Plugin, Profile};

    /// The trial against the real program uses the rules of the library.
    #[test]
    fn the_profiles_are_those_of_the_library() {
        for (name, mut rules) in [("kubernetes-1.35", Profile::v1_35()), ("kubernetes-1.20", Profile::v1_20())] {
            let profile = dryrack_profile::load_profile(name, Path::new("")).expect("a profile of ours");
            let mut loaded = profile.flow.kubernetes().expect("a profile of Kubernetes").scheduler.clone();
            // A file cannot take a scorer away. Without a filter of that name, no pod has claims to score.
            if !loaded.filters.contains(&Plugin::DynamicResources) {
                loaded.scorers.retain(|(plugin, _)| *plugin != Plugin::DynamicResources);
            }
            loaded.scorers.sort_unstable();
            rules.scorers.sort_unstable();
            assert_eq!(loaded, rules, "{name}");
        }
    }
}

//! Records of kube-scheduler: clusters, pods in the order in which they were scheduled, and every attempt with the
//! reasons of each node, the scores of each plugin and the victims of preemption.
//!
//! Each attempt is one answer. The recorded choice is carried out before the next attempt. So after a difference, later
//! attempts can still be equal.

mod compare;
mod record;
mod replay;

use std::collections::BTreeMap;

use super::{Compared, Comparison, Profiles, RecordFields, RecordKind, parse};
use dryrack_kubernetes::cluster::Resource;
use dryrack_kubernetes::cycle::{Profile, ScoringStrategy, Strategy};
use record::{Record, Step};
use replay::Replay;

pub struct Kubernetes;

/// The release that was recorded.
const VERSION: &str = "1.35.4";
const PROFILE: &str = "kubernetes-1.35";

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
            let profile = profile(&name).ok_or_else(|| format!("`{name}` is no profile of these records"))?;
            let add = |step: &Step, result| Compared {
                id: format!("{id}, {name}, {}, attempt {}", step.pod, step.attempt),
                class: class.clone(),
                version: VERSION.to_string(),
                result,
            };
            // The rules are fixed, so no records are compared if another profile is given.
            if profiles.is_fixed() {
                let not_asked = || Comparison::NotAsked { profile: PROFILE.to_string() };
                compared.extend(steps.iter().map(|step| add(step, not_asked())));
                continue;
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

/// The profiles that were recorded. They differ in the scoring of `NodeResourcesFit`.
fn profile(name: &str) -> Option<Profile> {
    let weights = |cpu, memory, gpu| {
        let gpu_name = std::sync::Arc::from("nvidia.com/gpu");
        vec![(Resource::Cpu, cpu), (Resource::Memory, memory), (Resource::Extended(gpu_name), gpu)]
    };
    let ratio = |shape: &[(i64, i64)]| Strategy::RequestedToCapacityRatio(shape.to_vec());
    let mut profile = Profile::v1_35();
    match name {
        "default" => {}
        "most" => profile.fit = ScoringStrategy { kind: Strategy::MostAllocated, resources: weights(1, 1, 5) },
        "rtcr" => profile.fit = ScoringStrategy { kind: ratio(&[(0, 0), (100, 10)]), resources: weights(1, 1, 5) },
        "rtcrbend" => {
            let kind = ratio(&[(0, 2), (40, 10), (80, 4), (100, 0)]);
            profile.fit = ScoringStrategy { kind, resources: weights(2, 1, 3) };
        }
        _ => return None,
    }
    Some(profile)
}

/// Steps by profile.
type Expected = BTreeMap<String, Vec<Step>>;

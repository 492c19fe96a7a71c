//! Records of Kueue: queues and workloads, what happens to them, and every scheduling cycle of the real scheduler.
//!
//! Each recorded cycle is one answer, and so is each step: its operations, why its cycles ended, and the state after
//! it. The other programs around the scheduler, such as those that create workloads and end pods, are simulated as in
//! the recording ([`replay`]).

mod compare;
mod record;
mod replay;
mod seen;

use super::kind::{Compared, Comparison, RecordFields, RecordKind, parse};
use super::profiles::Profiles;
use record::World;
use replay::Replay;
use seen::State;

/// The version that was recorded. The records do not name it.
const VERSION: &str = "0.20.0-devel-377-gff69552e79";

pub struct KueueCycles;

impl RecordKind for KueueCycles {
    fn name(&self) -> &'static str {
        "kueue"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["cqs", "cohorts", "workloads", "timeline", "out"]
    }

    /// These records do not depend on a profile, so nothing is compared if a profile is given.
    fn compare(&self, record: &RecordFields, _: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String> {
        if profiles.is_fixed() {
            return Ok(Vec::new());
        }
        let world: World = parse(record)?;
        let mut replay = Replay::new(&world)?;
        let mut compared = Vec::new();
        // A cycle that changed no usage does not state it again.
        let mut stated = State::default();
        let answer = |what: String, differences| Compared {
            id: format!("{} {what}", world.id),
            class: world.class.clone(),
            version: VERSION.to_string(),
            result: Comparison::Asked(differences),
        };
        for recorded in &world.out.steps {
            let found = replay.step(recorded.t)?;
            for (index, cycle) in recorded.cycles.iter().enumerate() {
                if let Some(usage) = &cycle.usage {
                    stated = State {
                        usage: usage.clone(),
                        borrowed: cycle.borrowed.clone().unwrap_or_default(),
                        share: cycle.share.clone().unwrap_or_default(),
                    };
                }
                let differences = compare::cycle(cycle, &stated, found.cycles.get(index));
                compared.push(answer(format!("cycle {}", cycle.n), differences));
            }
            compared.push(answer(format!("step {}", recorded.t), compare::step(recorded, &found)));
        }
        Ok(compared)
    }
}

//! Compares a recorded cycle or step with the computed one, part by part.

use std::fmt::Debug;

use super::super::kind::Difference;
use super::seen::{CycleSeen, HeadSeen, State, StepSeen};

struct Parts(Vec<Difference>);

impl Parts {
    fn part<T: PartialEq + Debug>(&mut self, kind: &'static str, of: &str, recorded: &T, found: &T) {
        if recorded != found {
            let of = if of.is_empty() { String::new() } else { format!("{of}: ") };
            self.0.push(Difference { kind, text: format!("{of}recorded {recorded:?}, found {found:?}") });
        }
    }
}

/// `stated` is the usage after the cycle according to the record.
pub fn cycle(recorded: &CycleSeen, stated: &State, found: Option<&CycleSeen>) -> Vec<Difference> {
    let Some(found) = found else {
        return vec![Difference { kind: "cycle is missing", text: format!("cycle {} is not run", recorded.n) }];
    };
    let mut parts = Parts(Vec::new());
    parts.part("time of the cycle", "", &(recorded.n, recorded.t), &(found.n, found.t));
    let names = |heads: &[HeadSeen]| heads.iter().map(|head| head.wl.clone()).collect::<Vec<String>>();
    parts.part("heads", "", &names(&recorded.heads), &names(&found.heads));
    for recorded in &recorded.heads {
        if let Some(found) = found.heads.iter().find(|found| found.wl == recorded.wl) {
            head(recorded, found, &mut parts);
        }
    }
    parts.part("preempted", "", &recorded.preempted, &found.preempted);
    parts.part("released", "", &recorded.released, &found.released);
    parts.part("usage", "", &Some(&stated.usage), &found.usage.as_ref());
    parts.part("borrowed", "", &Some(&stated.borrowed), &found.borrowed.as_ref());
    parts.part("share", "", &Some(&stated.share), &found.share.as_ref());
    parts.0
}

fn head(recorded: &HeadSeen, found: &HeadSeen, parts: &mut Parts) {
    let of = recorded.wl.as_str();
    parts.part("queue", of, &recorded.cq, &found.cq);
    parts.part("result", of, &recorded.result, &found.result);
    let (assigned, is) = (&recorded.assignment, &found.assignment);
    parts.part("mode", of, &assigned.mode, &is.mode);
    parts.part("borrow level", of, &assigned.borrow, &is.borrow);
    parts.part("pod sets", of, &assigned.podsets, &is.podsets);
    parts.part("targets", of, &assigned.targets, &is.targets);
    parts.part("message", of, &assigned.msg, &is.msg);
    parts.part("first nomination", of, &recorded.nominated, &found.nominated);
    parts.part("requeued", of, &recorded.requeued, &found.requeued);
}

pub fn step(recorded: &StepSeen, found: &StepSeen) -> Vec<Difference> {
    let mut parts = Parts(Vec::new());
    parts.part("operations", "", &recorded.ops, &found.ops);
    parts.part("released before the first cycle", "", &recorded.released, &found.released);
    parts.part("number of cycles", "", &recorded.cycles.len(), &found.cycles.len());
    parts.part("end of the cycles", "", &recorded.stop, &found.stop);
    let (recorded, found) = (&recorded.end, &found.end);
    parts.part("admitted at the end", "", &recorded.admitted, &found.admitted);
    parts.part("active at the end", "", &recorded.active, &found.active);
    parts.part("inadmissible at the end", "", &recorded.inadmissible, &found.inadmissible);
    parts.part("usage at the end", "", &recorded.usage, &found.usage);
    parts.part("borrowed at the end", "", &recorded.borrowed, &found.borrowed);
    parts.part("share at the end", "", &recorded.share, &found.share);
    parts.part("condition", "", &recorded.status, &found.status);
    parts.0
}

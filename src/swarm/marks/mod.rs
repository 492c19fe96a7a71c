//! Marks: the states that some run should reach. Each reason, each kind of event, each edge of the lifecycles and each
//! option of a profile is a mark. A state that no run reaches is one that no check has judged.
//!
//! No list of marks is kept by hand. Reasons and edges come from their tables. Kinds of events and options of profiles
//! come from their readers: a reader that is given a wrong name answers with all names that it knows.

mod options;
mod run;
mod variants;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use dryrack_control::Profile;
use dryrack_event::{Event, Phase, Reason};
use dryrack_fleet::{InstanceState, NodeState};
use dryrack_lifecycle::{
    MemberState, WholeState, is_attempt_edge, is_instance_edge, is_member_edge, is_member_edge_taken, is_node_edge,
    is_whole_edge, is_whole_edge_taken,
};

use options::{OptionTable, Options};
pub use run::RunMarks;
use variants::{variant_names, variants};

/// The marks that runs have reached, each with the number of these runs.
pub struct Marks {
    table: OptionTable,
    reached: BTreeMap<String, u64>,
    options: Options,
}

impl Marks {
    /// No mark is reached yet. The profiles are those whose options are known; a run may have any other.
    pub fn new<'p>(profiles: impl IntoIterator<Item = &'p Profile>) -> Marks {
        Marks { table: OptionTable::of(profiles), reached: BTreeMap::new(), options: Options::default() }
    }

    /// Adds what one run has reached under a profile.
    pub fn add(&mut self, run: &RunMarks, profile: &Profile) {
        run.names().for_each(|mark| *self.reached.entry(mark).or_default() += 1);
        self.options.add(profile, &self.table);
    }

    /// All marks, sorted, each with the number of runs that reached it. For an edge that the log does not show, the
    /// number is 1 if any run of this process took it. For an option without listed values, it is the number of values
    /// beyond the first.
    pub fn all(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        let reasons = Reason::ALL.iter().map(|reason| reason_mark(*reason));
        let events = variant_names::<Event>().into_iter().map(|name| event_mark(&name));
        let edges = attempt_edges().chain(node_edges()).chain(instance_edges());
        for mark in reasons.chain(events).chain(edges) {
            let count = self.reached.get(&mark).copied().unwrap_or(0);
            all.insert(mark, count);
        }
        for (from, to) in pairs(&MemberState::ALL).filter(|(from, to)| is_member_edge(*from, *to)) {
            let mark = edge_mark("member", word(from), word(to));
            all.insert(mark, u64::from(is_member_edge_taken(from, to)));
        }
        for (from, to) in pairs(&WholeState::ALL).filter(|(from, to)| is_whole_edge(*from, *to)) {
            let mark = edge_mark("run", word(from), word(to));
            all.insert(mark, u64::from(is_whole_edge_taken(from, to)));
        }
        all.extend(self.options.counts(&self.table));
        all
    }
}

fn reason_mark(reason: Reason) -> String {
    format!("reason {}", reason.name())
}

fn event_mark(name: &str) -> String {
    format!("event {name}")
}

fn edge_mark(table: &str, from: impl Display, to: impl Display) -> String {
    format!("edge {table} {from} to {to}")
}

/// The name of a variant in files.
fn word(state: impl Debug) -> String {
    let mut word = String::new();
    for letter in format!("{state:?}").chars().filter(|letter| *letter != '"') {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

/// All pairs of states.
fn pairs<S: Copy>(states: &[S]) -> impl Iterator<Item = (S, S)> + '_ {
    states.iter().flat_map(|from| states.iter().map(|to| (*from, *to)))
}

fn attempt_edges() -> impl Iterator<Item = String> {
    let edges = pairs(&Phase::ALL).filter(|(from, to)| is_attempt_edge(*from, *to));
    edges.map(|(from, to)| edge_mark("attempt", word(from), word(to)))
}

fn node_edges() -> impl Iterator<Item = String> {
    let states = variants::<NodeState>();
    let edges: Vec<_> = pairs(&states).filter(|(from, to)| is_node_edge(*from, *to)).collect();
    edges.into_iter().map(|(from, to)| edge_mark("node", word(from), word(to)))
}

fn instance_edges() -> impl Iterator<Item = String> {
    let edges = pairs(&InstanceState::ALL).filter(|(from, to)| is_instance_edge(*from, *to));
    edges.map(|(from, to)| edge_mark("instance", word(from), word(to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_event::{Input, Outcome, Sink};
    use dryrack_ids::{AttemptId, JobId, NodeId};
    use dryrack_profile::{load_profile, profile_names};
    use dryrack_units::SimTime;
    use std::path::Path;

    fn marks() -> Marks {
        let profiles: Vec<_> =
            profile_names().map(|name| load_profile(name, Path::new("")).expect("it is built in")).collect();
        Marks::new(profiles.iter().map(|profile| &**profile))
    }

    #[test]
    fn every_reason_event_edge_and_option_is_a_mark() {
        let all = marks().all();
        let of = |kind: &str| all.keys().filter(|mark| mark.starts_with(kind)).count();
        assert_eq!(of("reason "), Reason::ALL.len());
        // Counted by hand in the tables and in `Event`.
        assert_eq!(of("event "), 24);
        assert_eq!((of("edge attempt"), of("edge instance"), of("edge run")), (16, 15, 15));
        for mark in [
            "event node_changed",
            "edge node ready to not_ready",
            "edge member draining to ended",
            "option scheduler.discipline: committed",
            "option scheduler.order: fair_share",
            "option scheduler.slots.depth",
            "option passes.place.trigger: each_after",
            "option flow: kubernetes",
            "option flow.polled.begin: all_prepared",
            "option historic",
        ] {
            assert_eq!(all.get(mark), Some(&0), "{mark}");
        }
        assert!(all.keys().all(|mark| !mark.starts_with("option name")), "a name is no option");
    }

    #[test]
    fn what_a_run_reaches_is_counted_once_for_the_run() {
        let mut marks = marks();
        let mut run = RunMarks::default();
        let attempt = AttemptId { job: JobId::new(0), replica: 0, number: 1 };
        for (from, to) in [(NodeState::Ready, NodeState::NotReady), (NodeState::NotReady, NodeState::Ready)] {
            let event = Event::NodeChanged { node: NodeId::new(0), from, to, because: Reason::Reported };
            run.input(1, SimTime::ZERO, &Input::Wakeup);
            run.event(1, SimTime::ZERO, &event);
        }
        let (outcome, because) = (Outcome::Failed, Reason::StartFailed);
        run.event(
            1,
            SimTime::ZERO,
            &Event::Ended { attempt, from: Phase::Running, outcome, because, kept: Default::default() },
        );
        let profile = load_profile("fifo", Path::new("")).expect("it is built in");
        marks.add(&run, &profile);
        let reached: Vec<_> = marks.all().into_iter().filter(|(_, count)| *count > 0).collect();
        let is_reached = |mark: &str| reached.contains(&(mark.to_string(), 1));
        for mark in [
            "event node_changed",
            "event ended",
            "reason reported",
            "reason start_failed",
            "edge node ready to not_ready",
            "edge node not_ready to ready",
            "edge attempt running to ended",
            "option scheduler.discipline: strict",
        ] {
            assert!(is_reached(mark), "{mark} of {reached:?}");
        }
        let others = |kind: &str| reached.iter().filter(|(mark, _)| mark.starts_with(kind)).count();
        assert_eq!((others("event"), others("reason"), others("edge")), (2, 2, 3));
        assert!(!is_reached("option scheduler.slots.depth"), "one value tells nothing apart");
        let other = load_profile("slurm-22.05", Path::new("")).expect("it is built in");
        marks.add(&RunMarks::default(), &other);
        assert!(marks.all()["option passes.backfill"] > 0, "one profile has such a pass, the other does not");
    }
}

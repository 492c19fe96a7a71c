//! Runs worlds: under the program in another process, which is started once for many worlds, or under the profile that
//! a world names.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use super::breach::Breach;
use super::observed::{Observed, Recorder};
use super::properties::Property;
use super::world::World;
use dryrack_engine::{Progress, Rehearsal};
use dryrack_expect::Verdict;
use dryrack_outside::{Command, IdleProcess, Session, Setup};
use dryrack_rehearse::{rehearse, rehearse_decided};
use dryrack_scenario::{Loaded, Options, Outside, load_text};
use dryrack_scheduler::Caching;

/// Runs worlds, one after the other.
pub struct Arena {
    command: Command,
    kept: Option<IdleProcess>,
    /// The result of each world that was run since the last [`Arena::forget`].
    known: BTreeMap<[u8; 32], Option<Arc<Observed>>>,
    /// The number of worlds that the program decided.
    pub asked: u64,
    /// Why the last world that failed to run did so.
    pub refusal: Option<String>,
}

/// The result of a scenario with expectations.
pub struct ScenarioResult {
    pub observed: Observed,
    pub verdicts: Vec<Verdict>,
}

/// The program or profile that makes the decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionMaker {
    Program,
    /// The program, in a process that has decided nothing before.
    Fresh,
    Profile,
}

impl Arena {
    pub fn new(command: Command) -> Arena {
        Arena { command, kept: None, known: BTreeMap::new(), asked: 0, refusal: None }
    }

    /// Forgets the results of earlier worlds, but keeps the process.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// The decisions of the program in this world. `None` if the world is not a valid scenario, or if the run broke or
    /// did not end.
    pub fn observe(&mut self, text: &str) -> Option<Arc<Observed>> {
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        if let Some(known) = self.known.get(&hash) {
            return known.clone();
        }
        let observed = self.judge(text, DecisionMaker::Program).map(|judged| Arc::new(judged.observed));
        self.known.insert(hash, observed.clone());
        observed
    }

    /// Runs a scenario and judges its expectations.
    pub fn judge(&mut self, text: &str, decides: DecisionMaker) -> Option<ScenarioResult> {
        let loaded = self.load(text, decides)?;
        match (&loaded.outside, decides) {
            (Some(setup), DecisionMaker::Program | DecisionMaker::Fresh) => {
                self.decided(&loaded, setup.clone(), decides)
            }
            (_, _) => self.ruled(&loaded),
        }
    }

    /// Reads a world. `None` if it is not a valid scenario, or has no end.
    pub(super) fn load(&mut self, text: &str, decides: DecisionMaker) -> Option<Loaded> {
        let outside = match decides {
            DecisionMaker::Program | DecisionMaker::Fresh => Outside::Command(self.command.clone(), PathBuf::new()),
            DecisionMaker::Profile => Outside::Refused,
        };
        let options = Options { outside, ..Options::default() };
        let loaded = match load_text("world.yaml", text, &PathBuf::new(), &options) {
            Ok(loaded) => loaded,
            Err(faults) => {
                self.refusal = Some(faults.to_string());
                return None;
            }
        };
        // A run without an end could go on forever.
        if loaded.rehearsal.until.is_none() {
            self.refusal = Some("it has no `until`".to_string());
            return None;
        }
        Some(loaded)
    }

    fn decided(&mut self, loaded: &Loaded, setup: Setup, decides: DecisionMaker) -> Option<ScenarioResult> {
        let (rehearsal, progress) = (&loaded.rehearsal, Progress::default());
        let run = |session: &mut Session| {
            let mut recorder = Recorder::new(rehearsal, &progress);
            let expectations = loaded.expectations.clone();
            (rehearse_decided(rehearsal, expectations, &progress, vec![&mut recorder], session), recorder)
        };
        let ((rehearsed, recorder), failure) = self.with_program(rehearsal, setup, decides, run)?;
        Some(ScenarioResult { observed: recorder.finish(rehearsed.until, failure), verdicts: rehearsed.verdicts })
    }

    /// Starts the program for a world, or takes the process that decided the last one. Returns the result of `run`, and
    /// why the program failed if it did. `None` if the program cannot decide in this world.
    pub(super) fn with_program<T>(
        &mut self,
        rehearsal: &Rehearsal,
        setup: Setup,
        decides: DecisionMaker,
        run: impl FnOnce(&mut Session) -> T,
    ) -> Option<(T, Option<String>)> {
        self.asked += 1;
        let kept = if decides == DecisionMaker::Fresh { None } else { self.kept.take() };
        let mut session = match Session::start_or_keep(kept, setup, &rehearsal.title, rehearsal.seed) {
            Ok(session) => session,
            Err(error) => {
                self.refusal = Some(error.to_string());
                return None;
            }
        };
        let Ok(result) = catch_unwind(AssertUnwindSafe(|| run(&mut session))) else {
            self.refusal = Some("the run broke or did not end".to_string());
            return None;
        };
        let last = |errors: &str| errors.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_string);
        let failure = session.failure().map(|failure| last(&failure.errors).unwrap_or(failure.text.clone()));
        let is_greeted = session.who().is_some();
        if let Some(failure) = failure.as_ref().filter(|failure| !is_greeted || is_of_driver(failure)) {
            self.refusal = Some(failure.clone());
            return None;
        }
        if decides == DecisionMaker::Program {
            self.kept = session.keep();
        }
        Some((result, failure))
    }

    fn ruled(&mut self, loaded: &Loaded) -> Option<ScenarioResult> {
        let rehearsal = &loaded.rehearsal;
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let progress = Progress::default();
            let mut recorder = Recorder::new(rehearsal, &progress);
            let expectations = loaded.expectations.clone();
            let rehearsed = rehearse(rehearsal, expectations, &progress, Caching::On, vec![&mut recorder]);
            ScenarioResult { observed: recorder.finish(rehearsed.until, None), verdicts: rehearsed.verdicts }
        }));
        if judged.is_err() {
            self.refusal = Some("the run broke or did not end".to_string());
        }
        judged.ok()
    }
}

/// Whether the fault is in the driver of a released program: the driver cannot represent the scenario, or has found
/// that it would not represent the program correctly. In both cases, the program has not decided.
fn is_of_driver(failure: &str) -> bool {
    let faults = ["stand_in_unused", "stand_in_unstated", "seam_missing", "network", "process", "unmapped"];
    let named = failure.trim_start_matches("fault: ");
    faults.iter().any(|fault| named.strip_prefix(fault).is_some_and(|rest| rest.starts_with(':')))
}

/// A world with its result, and the means to run other worlds.
pub struct Case<'a> {
    pub world: World,
    pub observed: Arc<Observed>,
    arena: &'a mut Arena,
}

impl<'a> Case<'a> {
    /// Runs a world. `None` if it cannot be run.
    pub fn of(text: &str, arena: &'a mut Arena) -> Option<Case<'a>> {
        let observed = arena.observe(text)?;
        Some(Case { world: World::read(text)?, observed, arena })
    }

    /// The decisions of the program in another world. `None` if the program fails there.
    pub fn observe(&mut self, world: &World) -> Option<Arc<Observed>> {
        self.arena.observe(&world.text()).filter(|observed| observed.failure.is_none())
    }

    /// All ways in which the property is broken. If the program failed, only properties that judge failures apply.
    pub fn breaches(&mut self, property: &dyn Property) -> Vec<Breach> {
        match self.observed.failure.is_some() && !property.judges_failures() {
            true => Vec::new(),
            false => property.breaches(self),
        }
    }

    /// The decisions of the profile that the world names.
    pub fn ask_profile(&mut self, world: &World) -> Option<Observed> {
        Some(self.arena.judge(&world.text(), DecisionMaker::Profile)?.observed)
    }
}

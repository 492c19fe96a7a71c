//! The world on one side, the program on the other: objects go in, decisions come out.
//!
//! The program is *idle* when its requests say so:
//!
//! 1. Each watch of a kind that changed ends after its last event. The client opens it again from the version that it
//!    has received, which acknowledges the events.
//! 2. Each new pod is answered: with a binding, or with the condition `PodScheduled`. Pods that the program may keep
//!    back without a word (gates, claims, gangs) are not waited for.
//! 3. A *marker*, a pod of the lowest priority that fits nowhere, is answered. The program takes pods in the order of
//!    priority, so it has then answered for all pods in its queue. Markers follow until two in a row are answered and
//!    nothing else happens between them.
//!
//! A real-time limit ends a wait with [`Failure::Silent`]. Nothing else depends on the clock, except for back-offs: the
//! program measures them itself, so [`Rehearsal::pass`] lets real time pass where the world lets time pass.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thiserror::Error;

use super::config::{Config, Release};
use super::heard::{Heard, Unserved};
use super::key::ObjectKey;
use super::limits::Limits;
use super::process::{NotStarted, Program};
use super::server::Server;
use super::store::{ObjectError, Store};
use super::write::MARKERS;

/// How often the program moves pods whose back-off is over to its queue. (Since 1.33 an empty queue takes them at once.)
const FLUSH: Duration = Duration::from_millis(1_100);

/// How long to wait before looking again whether the program has ended.
const LOOK: Duration = Duration::from_millis(200);

/// Why the program can no longer be driven.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("kube-scheduler could not be started: {0}")]
    NotStarted(#[from] NotStarted),
    #[error("the API server could not be started: {0}")]
    NoServer(#[from] std::io::Error),
    #[error("kube-scheduler {how}; it last wrote:\n{errors}")]
    Ended { how: String, errors: String },
    #[error("kube-scheduler was not idle after {} s: {waits_for}; it last wrote:\n{errors}", .limit.as_secs())]
    Silent { limit: Duration, waits_for: String, errors: String },
    #[error("kube-scheduler bound the pod {pod} to {node}, but its node selector matches no node")]
    MarkerBound { pod: ObjectKey, node: String },
}

/// What the program did until it was idle.
#[derive(Debug, Default)]
pub struct Settled {
    /// In the order in which the server accepted it.
    pub heard: Vec<Heard>,
    /// How many of the first of these came after the program had been idle, before the world changed.
    pub late: usize,
}

/// A kube-scheduler that decides in a world.
pub struct Rehearsal {
    // Dropped first, so that the program does not see its server leave.
    program: Program,
    server: Server,
    patience: Duration,
    config: Config,
    scheduler_names: Vec<String>,
    /// New pods that the program has not seen. It sees them after all other objects.
    to_submit: Vec<Value>,
    /// Pods that the program must answer for.
    expected: BTreeSet<ObjectKey>,
    /// Pods without a node that the program knows, with the number of their attempts.
    waiting: BTreeMap<ObjectKey, u32>,
    /// Tables of other objects that changed since the program was idle.
    changed: BTreeSet<usize>,
    has_changed: bool,
    /// When the last back-off ends.
    backoff_end: Instant,
    /// Whether a pod may have been moved during its back-off. It is then tried without a further event.
    may_be_moved: bool,
    markers: u64,
    heard: Vec<Heard>,
    late: usize,
}

#[expect(clippy::disallowed_methods, reason = "limits and back-offs of another program are in real time")]
fn now() -> Instant {
    Instant::now()
}

impl Rehearsal {
    /// Starts a server and the program, and waits until the program has scheduled its first marker.
    ///
    /// # Errors
    /// If the program cannot be started, ends, or does not answer within `patience`.
    pub fn start(program: &Path, config: Config, limits: Limits, patience: Duration) -> Result<Rehearsal, Failure> {
        let release = Program::release_of(program)?;
        let server = Server::start(limits, &release.text)?;
        let program = Program::start(program, release, &config, &server)?;
        let scheduler_names = config.scheduler_names();
        let mut rehearsal = Rehearsal {
            program,
            server,
            patience,
            config,
            scheduler_names,
            to_submit: Vec::new(),
            expected: BTreeSet::new(),
            waiting: BTreeMap::new(),
            changed: BTreeSet::new(),
            has_changed: false,
            backoff_end: now(),
            may_be_moved: false,
            markers: 0,
            heard: Vec::new(),
            late: 0,
        };
        rehearsal.mark()?;
        Ok(rehearsal)
    }

    /// Changes the limit in real time of each wait.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Whether the program may try a pod again without a further event, once a back-off is over.
    pub fn may_be_moved(&self) -> bool {
        self.may_be_moved
    }

    pub fn release(&self) -> &Release {
        &self.program.release
    }

    /// The server, for its counters and for further kinds of objects.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The folder with the configuration of the program.
    pub fn program_folder(&self) -> &Path {
        self.program.folder()
    }

    /// The last part of what the program wrote to stderr.
    pub fn errors(&self) -> String {
        self.program.errors()
    }

    /// What the program asked for in vain.
    pub fn unserved(&self) -> Vec<Unserved> {
        self.server.unserved()
    }

    /// Creates or replaces an object. The program sees new pods without a node when the world settles.
    ///
    /// # Errors
    /// If the object cannot be served.
    pub fn apply(&mut self, object: Value) -> Result<(), ObjectError> {
        self.take_late();
        if object["kind"] == "Pod" && object["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
            let key = super::store::key_of_pod(&object);
            if !self.waiting.contains_key(&key) && !self.expected.contains(&key) {
                self.server.shared.lock().check(&object)?;
                self.to_submit.push(object);
                return Ok(());
            }
        }
        let mut store = self.server.shared.lock();
        let (kind, _) = store.apply(object)?;
        let table = store.table_of_kind(&kind);
        drop(store);
        self.note_change(table);
        Ok(())
    }

    /// Removes an object, such as a pod that has ended. Returns whether it was there.
    pub fn remove(&mut self, kind: &str, key: &ObjectKey) -> bool {
        self.take_late();
        self.waiting.remove(key);
        self.expected.remove(key);
        self.to_submit.retain(|pod| super::store::key_of_pod(pod) != *key);
        let mut store = self.server.shared.lock();
        let table = store.table_of_kind(kind);
        let was_there = store.remove(table, key);
        drop(store);
        if was_there {
            self.note_change(table);
        }
        was_there
    }

    fn note_change(&mut self, table: usize) {
        self.has_changed = true;
        self.changed.insert(table);
        self.may_be_moved |= !self.waiting.is_empty() && now() < self.backoff_end;
    }

    /// Notes what the program did after it was idle.
    fn take_late(&mut self) {
        if !self.has_changed && self.to_submit.is_empty() {
            let before = self.heard.len();
            self.take();
            self.late += self.heard.len() - before;
        }
    }

    /// Lets as much of the program's time pass as a back-off needs, if as much time passes in the world. A pod that was
    /// moved during its back-off is then tried; settle the world afterwards.
    pub fn pass(&mut self, time: Duration) {
        if self.waiting.is_empty() {
            return;
        }
        self.take_late();
        self.has_changed = true;
        let left = self.backoff_end.saturating_duration_since(now());
        let flush = if self.may_be_moved { FLUSH } else { Duration::ZERO };
        let needed = (left + flush).min(time + flush);
        // Nothing ends this wait early: the program's clock must advance.
        let _never = self.server.shared.wait_for(needed, |_| None::<()>);
        if time >= left {
            self.may_be_moved = false;
        }
    }

    /// Shows the program all that changed, and waits until it is idle.
    ///
    /// # Errors
    /// If the program ends or is not idle within its limit.
    pub fn settle(&mut self) -> Result<Settled, Failure> {
        self.take_late();
        if self.has_changed {
            self.acknowledge()?;
            self.mark_until_quiet()?;
            self.has_changed = false;
        }
        if !self.to_submit.is_empty() {
            self.submit()?;
        }
        if !self.waiting.is_empty() {
            self.mark_until_quiet()?;
        }
        Ok(Settled { heard: std::mem::take(&mut self.heard), late: std::mem::take(&mut self.late) })
    }

    /// Waits until the program states that it has received all changes.
    fn acknowledge(&mut self) -> Result<(), Failure> {
        let changed = std::mem::take(&mut self.changed);
        {
            let mut store = self.server.shared.lock();
            for table in &changed {
                store.tables[*table].ask_for_acknowledgement();
            }
        }
        let is_done =
            |store: &mut Store| changed.iter().all(|table| store.tables[*table].is_acknowledged()).then_some(());
        self.wait_for("it has not acknowledged all events", is_done)
    }

    /// Submits the new pods, and waits for the answer to each that must be answered.
    fn submit(&mut self) -> Result<(), Failure> {
        {
            let mut store = self.server.shared.lock();
            for pod in std::mem::take(&mut self.to_submit) {
                let is_expected = must_be_answered(&pod, &self.scheduler_names);
                let key = super::store::key_of_pod(&pod);
                if store.apply(pod).is_ok() {
                    if is_expected {
                        self.expected.insert(key.clone());
                    }
                    self.waiting.insert(key, 0);
                }
            }
        }
        let before = self.waiting.len();
        while let Some(next) = self.expected.first().cloned() {
            let what = format!("it has not answered for {} pods, such as {next}", self.expected.len());
            let is_heard = |store: &mut Store| (!store.heard.is_empty()).then_some(());
            self.wait_for(&what, is_heard)?;
            self.take();
        }
        // A pod that was bound may have moved another that was being tried.
        self.may_be_moved |= !self.waiting.is_empty() && self.waiting.len() < before;
        Ok(())
    }

    /// Moves what the server heard to the decisions. Returns whether it was more than answers for markers.
    fn take(&mut self) -> bool {
        let heard = self.server.take_heard();
        let before = self.heard.len();
        for heard in heard {
            match &heard {
                Heard::Unschedulable { pod, .. } | Heard::Nominated { pod, .. } if &*pod.namespace == MARKERS => {
                    continue;
                }
                Heard::Bound { pod, .. } => {
                    self.expected.remove(pod);
                    self.waiting.remove(pod);
                }
                Heard::Unschedulable { pod, .. } => {
                    self.expected.remove(pod);
                    if let Some(attempts) = self.waiting.get_mut(pod) {
                        *attempts += 1;
                        let doubled = 1u64.checked_shl(*attempts - 1).unwrap_or(u64::MAX);
                        let seconds = self.config.initial_backoff.saturating_mul(doubled).min(self.config.max_backoff);
                        self.backoff_end = self.backoff_end.max(now() + Duration::from_secs(seconds));
                    }
                }
                Heard::Nominated { .. } | Heard::Evicted { .. } | Heard::Wrote { .. } => {}
            }
            self.heard.push(heard);
        }
        self.heard.len() > before
    }

    fn mark_until_quiet(&mut self) -> Result<(), Failure> {
        let mut quiet = 0;
        while quiet < 2 {
            self.mark()?;
            quiet = if self.take() { 0 } else { quiet + 1 };
        }
        Ok(())
    }

    /// Submits a marker, waits for its answer, and removes it.
    fn mark(&mut self) -> Result<(), Failure> {
        self.take();
        self.markers += 1;
        let key = ObjectKey::new(MARKERS, &format!("marker-{}", self.markers));
        let marker = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": MARKERS, "name": &*key.name},
            "spec": {
                "schedulerName": self.scheduler_names[0],
                "priority": i32::MIN,
                "preemptionPolicy": "Never",
                "nodeSelector": {"dryrack.invalid/no-node": "true"},
                "containers": [{"name": "none", "image": "none"}],
            },
            "status": {"phase": "Pending"},
        });
        let applied = self.server.shared.lock().apply(marker);
        applied.unwrap_or_else(|fault| panic!("a marker is a pod: {fault}"));
        let answer = |store: &mut Store| {
            store.heard.iter().find_map(|heard| match heard {
                Heard::Unschedulable { pod, .. } if *pod == key => Some(None),
                Heard::Bound { pod, node } if *pod == key => Some(Some(node.to_string())),
                _ => None,
            })
        };
        let bound = self.wait_for("it has not answered for a pod that fits nowhere", answer)?;
        let mut store = self.server.shared.lock();
        let pods = store.table_of_kind("Pod");
        store.remove(pods, &key);
        drop(store);
        match bound {
            None => Ok(()),
            Some(node) => Err(Failure::MarkerBound { pod: key, node }),
        }
    }

    fn wait_for<T>(&mut self, waits_for: &str, mut what: impl FnMut(&mut Store) -> Option<T>) -> Result<T, Failure> {
        let end = now() + self.patience;
        loop {
            // A program whose shell has ended may go on answering.
            if let Some(how) = self.program.ending() {
                return Err(Failure::Ended { how, errors: self.program.errors() });
            }
            if let Some(found) = self.server.shared.wait_for(LOOK, &mut what) {
                return Ok(found);
            }
            if now() >= end {
                let waits_for = waits_for.to_owned();
                return Err(Failure::Silent { limit: self.patience, waits_for, errors: self.program.errors() });
            }
        }
    }
}

/// Whether the program must state what becomes of a new pod. It says nothing about pods of another scheduler, and it may
/// keep back pods with gates, claims, or a gang.
fn must_be_answered(pod: &Value, scheduler_names: &[String]) -> bool {
    let spec = &pod["spec"];
    let scheduler = spec["schedulerName"].as_str().unwrap_or("default-scheduler");
    let is_empty = |field: &str| spec[field].as_array().is_none_or(Vec::is_empty);
    scheduler_names.iter().any(|name| name == scheduler)
        && is_empty("schedulingGates")
        && is_empty("resourceClaims")
        && spec["workloadRef"].is_null()
        && !pod["metadata"]["deletionTimestamp"].is_string()
}

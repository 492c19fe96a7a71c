//! Services for language models: routes requests to the running replicas of each service, and reports to the control
//! plane what was served.
//!
//! A service is a small simulation of its own. It meets the rest of the world only when a replica starts or is lost,
//! when requests are counted, and when a report is due. So it is advanced to those times and adds nothing to the event
//! queue of the world. Within it there is one event for each change of a batch, not for each token: the steps between
//! two changes are summed up ([`DecodeRun`](dryrack_workload::DecodeRun)).
//!
//! The router gives each request, as it arrives, to the replica with the fewest requests that have not ended; ties go
//! to the replica with the lowest number. The request waits at that replica. If no replica takes requests, it waits at
//! the service until one does. The requests of a replica that is lost, or that has stopped, begin again from their
//! prompt. A replica that is told to stop gets no more requests and works on those that it has admitted until it stops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::due::Due;
use super::queue::EventQueue;
use super::serving_replica::{Ended, Replica};
use dryrack_event::{Input, ServiceReport, UsageFact};
use dryrack_ids::{AttemptId, JobId};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Arrival, Serving};

/// All services of a run.
#[derive(Default)]
pub(super) struct Services {
    services: BTreeMap<JobId, Service>,
    /// Attempts of services that have started and are not over.
    started: BTreeSet<AttemptId>,
    /// Whether an attempt may have changed since the last [`Services::follow`].
    pub is_touched: bool,
}

/// How an attempt serves at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Serves,
    /// It works on its requests and gets no others.
    Drains,
    /// It cannot be reached, but may come back.
    Unreached,
    /// It is over.
    Over,
}

struct Service {
    serving: Arc<Serving>,
    /// The submission of the service, from which its requests are counted.
    origin: SimTime,
    warm_up: SimTime,
    /// The next request to arrive.
    next: u32,
    /// When each request arrived.
    arrivals: Vec<SimTime>,
    /// In a closed loop: when each client that waits for nothing was free.
    free_clients: VecDeque<SimTime>,
    /// When each request that has arrived had its first token.
    first_tokens: Vec<Option<SimTime>>,
    /// Requests for which there is no replica, in order of arrival.
    waiting: VecDeque<u32>,
    replicas: BTreeMap<AttemptId, Replica>,
    /// The replicas that take requests, by the number of their requests that have not ended.
    by_load: BTreeSet<(u32, AttemptId)>,
    /// When the current steps of the working replicas end.
    ends: BTreeSet<(SimTime, AttemptId)>,
    /// The replicas that were given requests at the current instant.
    given: Vec<AttemptId>,
    report: ServiceReport,
    /// Requests that arrived after the warm-up and had no first token yet, except those that are too large.
    without_token: u64,
    replicas_told: u32,
    is_report_due: bool,
}

impl Services {
    /// Adds a submitted job if it is such a service.
    pub fn begin(&mut self, queue: &mut EventQueue<Due>, arrival: &Arrival, job: JobId, limits: Limits) {
        let Some(serving) = &arrival.behavior.serving else { return };
        let mut service = Service {
            serving: Arc::clone(serving),
            origin: arrival.at,
            warm_up: limits.warm_up.unwrap_or(SimTime::ZERO),
            next: 0,
            arrivals: Vec::new(),
            // Each client sends at least one request, so there is no need for more clients than requests.
            free_clients: (0..serving.clients.unwrap_or(0) as usize)
                .take(serving.requests.len())
                .map(|_| arrival.at)
                .collect(),
            first_tokens: Vec::new(),
            waiting: VecDeque::new(),
            replicas: BTreeMap::new(),
            by_load: BTreeSet::new(),
            ends: BTreeSet::new(),
            given: Vec::new(),
            report: ServiceReport::default(),
            without_token: 0,
            replicas_told: 0,
            is_report_due: false,
        };
        service.schedule(queue, job, arrival.at, limits);
        self.services.insert(job, service);
    }

    /// Notes that an attempt has started. The next [`Services::follow`] adds it to its service.
    pub fn started(&mut self, attempt: AttemptId) {
        if self.services.contains_key(&attempt.job) {
            self.started.insert(attempt);
            self.is_touched = true;
        }
    }

    /// Whether a replica may have changed since the last [`Services::follow`].
    #[inline]
    pub fn may_have_changed(&self) -> bool {
        self.is_touched && !self.started.is_empty()
    }

    /// Brings the replicas of all services in line with the attempts.
    pub fn follow(
        &mut self,
        queue: &mut EventQueue<Due>,
        now: SimTime,
        limits: Limits,
        standing: impl Fn(AttemptId) -> Standing,
    ) {
        self.is_touched = false;
        let mut changed = BTreeSet::new();
        for attempt in &self.started {
            let service = self.services.get_mut(&attempt.job).expect("only attempts of services are kept");
            let known = service.replicas.get(attempt).map(|replica| replica.is_draining);
            let standing = standing(*attempt);
            match (known, standing) {
                (None, Standing::Unreached | Standing::Over | Standing::Drains)
                | (Some(false), Standing::Serves)
                | (Some(true), Standing::Drains) => {}
                (None, Standing::Serves) | (Some(true), Standing::Serves) => {
                    service.advance(now);
                    service.join(*attempt);
                    changed.insert(attempt.job);
                }
                (Some(false), Standing::Drains) => {
                    service.advance(now);
                    service.drain(*attempt);
                    changed.insert(attempt.job);
                }
                (Some(_), Standing::Unreached | Standing::Over) => {
                    service.advance(now);
                    service.lose(*attempt);
                    changed.insert(attempt.job);
                }
            }
        }
        self.started.retain(|attempt| standing(*attempt) != Standing::Over);
        for job in changed {
            let service = self.services.get_mut(&job).expect("just changed");
            service.route_waiting(now);
            service.schedule(queue, job, now, limits);
        }
    }

    /// Makes the report of a service that is due.
    pub fn report(&mut self, queue: &mut EventQueue<Due>, job: JobId, now: SimTime, limits: Limits) -> Option<Input> {
        let service = self.services.get_mut(&job)?;
        service.is_report_due = false;
        service.advance(now);
        let report = service.take_report();
        service.schedule(queue, job, now, limits);
        Some(Input::Usage(UsageFact::Served { job, report: Arc::new(report?) }))
    }
}

/// The times between which reports are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub warm_up: Option<SimTime>,
    pub until: Option<SimTime>,
}

impl Service {
    /// Schedules the next report, if something will happen before it.
    fn schedule(&mut self, queue: &mut EventQueue<Due>, job: JobId, now: SimTime, limits: Limits) {
        let is_active = self.next_arrival().is_some() || !self.ends.is_empty();
        let is_due = is_active || !self.report.is_empty() || self.replicas_told != self.by_load.len() as u32;
        if self.is_report_due || !is_due || limits.until.is_some_and(|until| now >= until) {
            return;
        }
        let every = self.serving.report_every.as_nanos().max(1);
        let next = SimTime::from_nanos((now.as_nanos() / every + 1).saturating_mul(every));
        let next = if is_active { next.max(self.next_time().unwrap_or(next)) } else { next };
        // A quiet time has no reports, but reports stay at multiples of their interval.
        let next = SimTime::from_nanos(next.as_nanos().div_ceil(every).saturating_mul(every));
        self.is_report_due = true;
        queue.push(limits.until.map_or(next, |until| next.min(until)), Due::ServiceReport(job));
    }

    /// When a request arrives or a step ends next.
    fn next_time(&self) -> Option<SimTime> {
        let step = self.ends.first().map(|(at, _)| *at);
        step.into_iter().chain(self.next_arrival()).min()
    }

    /// When the next request arrives. `None` if there is none, or if all clients of a closed loop wait.
    fn next_arrival(&self) -> Option<SimTime> {
        let next = self.serving.requests.get(self.next as usize)?;
        match self.serving.clients {
            None => Some(self.origin.saturating_add(next.at)),
            Some(_) => self.free_clients.front().copied(),
        }
    }

    /// Lets everything up to this time happen. At equal times, steps end before requests arrive, and replicas with lower
    /// numbers go first.
    fn advance(&mut self, to: SimTime) {
        loop {
            let arrival = self.next_arrival().filter(|at| *at <= to);
            let step = self.ends.first().copied().filter(|(at, _)| *at <= to);
            match (step, arrival) {
                (Some((at, attempt)), arrival) if arrival.is_none_or(|arrival| at <= arrival) => {
                    self.end_step(at, attempt);
                }
                (_, Some(at)) => {
                    while self.next_arrival() == Some(at) {
                        self.arrive(at);
                    }
                    self.wake(at);
                }
                (_, None) => return,
            }
        }
    }

    fn is_counted(&self, request: u32) -> bool {
        self.arrivals[request as usize] >= self.warm_up
    }

    fn arrive(&mut self, now: SimTime) {
        let request = self.next;
        self.next += 1;
        self.arrivals.push(now);
        self.free_clients.pop_front();
        self.first_tokens.push(None);
        let is_counted = self.is_counted(request);
        let is_too_large = self.serving.requests[request as usize].tokens() > self.serving.limits.kv_cache;
        let count = u64::from(is_counted);
        self.report.arrived += count;
        if is_too_large {
            self.report.too_large += count;
            self.free_clients.extend(self.serving.clients.map(|_| now));
            return;
        }
        self.without_token += count;
        if self.by_load.is_empty() {
            self.report.without_replica += count;
            self.waiting.push_back(request);
        } else {
            self.route(request);
        }
    }

    /// Gives a request to the replica with the fewest requests.
    fn route(&mut self, request: u32) {
        let (load, attempt) = self.by_load.pop_first().expect("a replica takes requests");
        self.by_load.insert((load + 1, attempt));
        self.replicas.get_mut(&attempt).expect("every replica is known").take(request);
        if self.given.last() != Some(&attempt) {
            self.given.push(attempt);
        }
    }

    /// Lets the replicas begin with the requests that they were given at this instant. All requests of an instant are
    /// given first, so that they can share a step.
    fn wake(&mut self, now: SimTime) {
        for attempt in std::mem::take(&mut self.given) {
            let replica = self.replicas.get_mut(&attempt).expect("every replica is known");
            let before = replica.ends();
            replica.wake(&self.serving, now);
            let after = replica.ends();
            self.follow_end(attempt, before, after);
        }
    }

    fn route_waiting(&mut self, now: SimTime) {
        if !self.by_load.is_empty() {
            for request in std::mem::take(&mut self.waiting) {
                self.route(request);
            }
            self.wake(now);
        }
    }

    fn follow_end(&mut self, attempt: AttemptId, before: Option<SimTime>, after: Option<SimTime>) {
        if before != after {
            before.map(|at| self.ends.remove(&(at, attempt)));
            after.map(|at| self.ends.insert((at, attempt)));
        }
    }

    fn end_step(&mut self, now: SimTime, attempt: AttemptId) {
        let replica = self.replicas.get_mut(&attempt).expect("every replica is known");
        let (load, before) = (replica.load(), replica.ends());
        let Ended { with_first_token, whole } = replica.end_step(&self.serving, now);
        let (after, load_after, is_draining) = (replica.ends(), replica.load(), replica.is_draining);
        self.follow_end(attempt, before, after);
        if load != load_after && !is_draining {
            self.by_load.remove(&(load, attempt));
            self.by_load.insert((load_after, attempt));
        }
        for request in with_first_token {
            // A request that began again has its first token already.
            if self.first_tokens[request as usize].is_none() {
                self.first_tokens[request as usize] = Some(now);
                if self.is_counted(request) {
                    self.without_token -= 1;
                    self.report.ttft.add(now.since(self.arrivals[request as usize]));
                }
            }
        }
        whole.into_iter().for_each(|request| self.end_request(now, request));
    }

    fn end_request(&mut self, now: SimTime, request: u32) {
        self.free_clients.extend(self.serving.clients.map(|_| now));
        if !self.is_counted(request) {
            return;
        }
        let size = self.serving.requests[request as usize];
        let arrived = self.arrivals[request as usize];
        let first = self.first_tokens[request as usize].expect("it has a token");
        self.report.latency.add(now.since(arrived));
        if size.output > 1 {
            let between = now.since(first).as_nanos() / u64::from(size.output - 1);
            self.report.tpot.add(SimDuration::from_nanos(between));
        }
        self.report.input_tokens += u64::from(size.input);
        self.report.output_tokens += u64::from(size.output);
    }

    fn join(&mut self, attempt: AttemptId) {
        let replica = self.replicas.entry(attempt).or_default();
        replica.is_draining = false;
        self.by_load.insert((replica.load(), attempt));
    }

    /// Stops giving requests to a replica. Those that it has not admitted go elsewhere.
    fn drain(&mut self, attempt: AttemptId) {
        let replica = self.replicas.get_mut(&attempt).expect("every replica is known");
        self.by_load.remove(&(replica.load(), attempt));
        replica.is_draining = true;
        let back = replica.give_back_waiting();
        self.take_back(back, false);
    }

    fn lose(&mut self, attempt: AttemptId) {
        let replica = self.replicas.remove(&attempt).expect("every replica is known");
        self.by_load.remove(&(replica.load(), attempt));
        self.follow_end(attempt, replica.ends(), None);
        let (begun, waiting) = replica.into_requests();
        self.take_back(begun, true);
        self.take_back(waiting, false);
    }

    /// Takes requests back to the service, in order of arrival before those that arrived later.
    fn take_back(&mut self, requests: Vec<u32>, had_begun: bool) {
        if had_begun {
            let counted = requests.iter().filter(|request| self.is_counted(**request)).count();
            self.report.repeated += counted as u64;
        }
        self.waiting.extend(requests);
        self.waiting.make_contiguous().sort_unstable();
    }

    fn take_report(&mut self) -> Option<ServiceReport> {
        let replicas = self.by_load.len() as u32;
        if self.report.is_empty() && replicas == self.replicas_told {
            return None;
        }
        self.replicas_told = replicas;
        Some(ServiceReport { waiting: self.without_token, replicas, ..std::mem::take(&mut self.report) })
    }
}

//! Writes, without serde, the compact form of the records that every node and every job produces. The bytes are the same
//! as those that [`Compact`] writes through serde, but this takes a fifth of the instructions.
//!
//! Other records, and fields that few jobs use, still go through serde. Each type is destructured completely, so that a
//! new field causes a compile error here. A property test compares the bytes with serde's.

use serde::Serialize;

use super::compact::{Compact, spread};
use super::forms::Shared;
use super::input::{FleetFact, Input, Lifecycle, UsageFact, UserRequest};
use super::output::Event;
use super::reason::{Histogram, OWN_REASON, Reason};
use dryrack_fleet::{GpuClaim, NodeClaim, NodeSpec, Placement};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// More than the largest number of blocks of a claim, whose numbers have sixteen bits.
const SETS_FOLLOW: u64 = 1 << 17;

pub(super) fn write_input(input: &Input, shared: &mut Shared, out: &mut Vec<u8>) {
    let mut out = Compact(out);
    match input {
        Input::Attempt { attempt, fact } => {
            out.0.push(8);
            out.attempt(*attempt);
            out.fact(*fact);
        }
        Input::User(UserRequest::Cancel { job }) => {
            out.0.push(10);
            out.job(*job);
        }
        Input::Submit { job, spec } => {
            out.0.push(13);
            out.job(*job);
            out.spec(spec, shared);
        }
        Input::Wakeup => out.0.push(14),
        Input::Fleet(FleetFact::NodeDeclared { node, state, spec: NodeSpec { name, shape } }) => {
            out.0.push(1);
            out.node(*node);
            out.0.push(*state as u8);
            out.text(name);
            shared.shapes.write(shape, &mut out);
        }
        Input::Usage(UsageFact::Sample { attempt, at, utilization, memory }) => {
            out.0.push(9);
            out.attempt(*attempt);
            out.time(*at);
            out.varint(utilization.len() as u64);
            utilization.iter().for_each(|level| out.optional(*level, |out, level| out.varint(level.get().into())));
            out.varint(memory.len() as u64);
            memory.iter().for_each(|used| out.optional(*used, |out, used| out.varint(used.get())));
        }
        Input::Fleet(_)
        | Input::Usage(UsageFact::Requests { .. } | UsageFact::Served { .. })
        | Input::User(UserRequest::Scale { .. })
        | Input::Evaluate { .. }
        | Input::External(_) => out.by_serde(input),
    }
}

pub(super) fn write_event(event: &Event, out: &mut Vec<u8>) {
    let mut out = Compact(out);
    match event {
        Event::Held { attempt, refusal, reasons } => {
            out.0.push(3);
            out.attempt(*attempt);
            out.0.push(*refusal as u8);
            out.histogram(reasons);
        }
        Event::Placed { attempt, score, placement } => {
            out.0.push(4);
            out.attempt(*attempt);
            out.0.extend_from_slice(&score.get().to_le_bytes());
            out.placement(placement);
        }
        Event::AnalysisStarted { attempt } => {
            out.0.push(6);
            out.attempt(*attempt);
        }
        Event::Moved { attempt, from, to, because } => {
            out.0.push(7);
            out.attempt(*attempt);
            match because {
                None => out.0.extend_from_slice(&[*from as u8, *to as u8, 0]),
                Some(reason) => {
                    out.0.extend_from_slice(&[*from as u8, *to as u8, 1]);
                    out.reason(*reason);
                }
            }
        }
        Event::Ended { attempt, from, outcome, because, kept } => {
            out.0.push(8);
            out.attempt(*attempt);
            out.0.extend_from_slice(&[*from as u8, *outcome as u8]);
            out.reason(*because);
            out.varint(kept.len() as u64);
            kept.iter().for_each(|node| out.node(*node));
        }
        Event::ClaimFreed { attempt, node } => {
            out.0.push(9);
            out.attempt(*attempt);
            out.node(*node);
        }
        Event::Retry { attempt, at, because } => {
            out.0.push(10);
            out.attempt(*attempt);
            out.time(*at);
            out.reason(*because);
        }
        Event::ReplicaAdded { attempt } => {
            out.0.push(17);
            out.attempt(*attempt);
        }
        Event::JobEnded { job, outcome, because } => {
            out.0.push(18);
            out.job(*job);
            out.0.push(*outcome as u8);
            out.reason(*because);
        }
        Event::Admitted { .. }
        | Event::NotAdmitted { .. }
        | Event::Evicted { .. }
        | Event::Preempted { .. }
        | Event::NodeChanged { .. }
        | Event::GpuChanged { .. }
        | Event::InstanceChanged { .. }
        | Event::CommitRefused { .. }
        | Event::DeadlineExpired { .. }
        | Event::SafetyBroken { .. }
        | Event::PolicyBound { .. }
        | Event::PolicyFired { .. }
        | Event::PolicyWarned { .. }
        | Event::SampleOdd { .. }
        | Event::Evaluated { .. } => out.by_serde(event),
    }
}

impl Compact<'_> {
    pub(super) fn by_serde(&mut self, part: &(impl Serialize + ?Sized)) {
        let Ok(()) = part.serialize(self);
    }

    pub(super) fn time(&mut self, at: SimTime) {
        self.varint(at.as_nanos());
    }

    fn job(&mut self, job: JobId) {
        let (word, length) = spread(job.index() as u64);
        self.word(word, length);
    }

    fn node(&mut self, node: NodeId) {
        self.varint(node.index() as u64);
    }

    fn attempt(&mut self, attempt: AttemptId) {
        let AttemptId { job, replica, number: attempt } = attempt;
        if replica >= 0x80 || attempt >= 0x80 {
            self.job(job);
            self.varint(replica.into());
            return self.varint(attempt.into());
        }
        // The job takes at most five bytes, and the replica and the attempt take one byte each.
        let (word, length) = spread(job.index() as u64);
        let others = u64::from(replica) | u64::from(attempt) << 8;
        self.word(word | others << (8 * length), length + 2);
    }

    fn fact(&mut self, fact: Lifecycle) {
        match fact {
            Lifecycle::Analysed => self.0.push(0),
            Lifecycle::AnalysisFailed => self.0.push(1),
            Lifecycle::Preparing => self.0.push(2),
            Lifecycle::Prepared => self.0.push(3),
            Lifecycle::Started => self.0.push(4),
            Lifecycle::StartFailed => self.0.push(5),
            Lifecycle::Exited(ending) => self.0.extend_from_slice(&[6, ending as u8]),
            Lifecycle::GpuFailed => self.0.push(7),
            Lifecycle::NodeFailed => self.0.push(8),
            Lifecycle::Stopped => self.0.push(9),
            Lifecycle::StoppedOn { node } => {
                self.0.push(10);
                self.node(node);
            }
            Lifecycle::Preempted => self.0.push(11),
            Lifecycle::TimedOut => self.0.push(12),
        }
    }

    fn spec(&mut self, spec: &JobSpec, shared: &mut Shared) {
        let JobSpec {
            name,
            demand,
            replicas,
            scaling,
            priority,
            queue,
            user,
            project,
            estimate,
            time_limit,
            analyse,
            restart,
            retry,
            unselectable,
            checkpoints,
            terms,
            utilization,
            after,
            run_limit,
            slurm,
            pod,
            queued,
            shared_deadline,
            shared_retry,
            restarts_with,
        } = spec;
        self.text(name);
        shared.demands.write(demand, self);
        self.varint((*replicas).into());
        self.optional(scaling.as_ref(), |out, scaling| out.by_serde(scaling));
        self.zigzag((*priority).into());
        for name in [queue, user, project] {
            self.optional(name.as_ref(), |out, name| out.text(name));
        }
        for length in [estimate, time_limit] {
            self.optional(*length, |out, length| out.varint(length.as_nanos()));
        }
        self.0.extend_from_slice(&[u8::from(*analyse), *restart as u8]);
        self.optional(retry.as_ref(), |out, retry| out.by_serde(retry));
        self.0.extend_from_slice(&[*unselectable as u8, u8::from(*checkpoints)]);
        shared.terms.write(terms, self);
        shared.utilizations.write(utilization, self);
        if !after.is_empty() || run_limit.is_some() {
            self.by_serde(after);
        }
        self.stated(run_limit);
        self.stated(slurm);
        self.stated(pod);
        self.stated(queued);
        self.stated(shared_deadline);
        self.stated(shared_retry);
        self.stated(restarts_with);
    }

    /// Writes a part that is left out if it is absent.
    fn stated(&mut self, part: &Option<impl Serialize>) {
        if part.is_some() {
            self.by_serde(part);
        }
    }

    fn text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn optional<T>(&mut self, part: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match part {
            None => self.0.push(0),
            Some(part) => {
                self.0.push(1);
                write(self, part);
            }
        }
    }

    fn histogram(&mut self, reasons: &Histogram) {
        self.varint(reasons.iter().count() as u64);
        for (reason, count) in reasons.iter() {
            self.reason(reason);
            self.varint(count.into());
        }
    }

    #[inline]
    fn reason(&mut self, reason: Reason) {
        let Reason::Own(own) = reason else { return self.varint(u64::from(reason.number())) };
        self.varint(OWN_REASON.into());
        self.varint(own.name().len() as u64);
        self.0.extend_from_slice(own.name().as_bytes());
    }

    fn placement(&mut self, placement: &Placement) {
        self.varint(placement.claims().len() as u64);
        for claim in placement.claims() {
            let NodeClaim { node, tasks, cpu, ram, gpus, blocks, sets } = claim;
            self.node(*node);
            self.varint((*tasks).into());
            self.varint(cpu.get());
            self.varint(ram.get());
            self.varint(gpus.len() as u64);
            for part in gpus {
                let GpuClaim { index, share, memory } = part;
                self.varint((*index).into());
                self.varint(share.get().into());
                self.varint(memory.get());
            }
            // A claim with sets of tasks has no blocks. A number of blocks that no claim has stands for the sets.
            if let Some(sets) = sets {
                self.varint(SETS_FOLLOW + sets.len() as u64);
                sets.iter().for_each(|tasks| self.varint((*tasks).into()));
                continue;
            }
            self.varint(blocks.len() as u64);
            blocks.iter().for_each(|block| self.varint((*block).into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::OwnReason;
    use crate::forms::MOST_FORMS;
    use crate::{Outcome, Phase, Refusal};
    use dryrack_fleet::{GpuShape, NodeShape, NodeState};
    use dryrack_ids::GpuId;
    use dryrack_objects::{NodeSelectorTerm, Pod};
    use dryrack_units::{Bytes, GpuShare, MilliCpu, Permille, RequestRate, Score, SimDuration};
    use dryrack_workload::{
        Backoff, Condition, Demand, Dependency, Ending, Gang, GpuDemand, GpuSpeed, GpuTake, HeldPodSet, HeldQuota,
        IdleGpus, IdleLimit, Pick, PolicySource, QueuedPart, QueuedPodSet, QueuedTopology, QueuedWorkload, Restart,
        Restarts, RetryPolicy, RunLimit, RunTerms, Scaling, SharedDeadline, SharedRetry, SlurmTerms, Speed,
        SpeedSource, Speeds, StartupOrder, StopCriteria, TaskDemand, Unselectable, UtilizationOverrides,
    };

    /// Draws both small and large numbers, because the length of the output depends on the size.
    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
    }

    fn count() -> impl Strategy<Value = u32> {
        number().prop_map(|number| number as u32)
    }

    fn text() -> impl Strategy<Value = Arc<str>> {
        "[a-zé]{0,200}".prop_map(Arc::from)
    }

    fn attempt() -> impl Strategy<Value = AttemptId> {
        (count(), count(), count()).prop_map(|(job, replica, attempt)| AttemptId {
            job: JobId::new(job as usize),
            replica,
            number: attempt,
        })
    }

    fn node() -> impl Strategy<Value = NodeId> {
        count().prop_map(|index| NodeId::new(index as usize))
    }

    fn reason() -> impl Strategy<Value = Reason> {
        let own = ["spot_node", "z"].map(|name| Reason::Own(OwnReason::new(name).unwrap()));
        prop_oneof![9 => select(Reason::ALL), 1 => select(own.to_vec())]
    }

    fn length() -> impl Strategy<Value = SimDuration> {
        number().prop_map(SimDuration::from_nanos)
    }

    fn fact() -> impl Strategy<Value = Lifecycle> {
        let plain = [
            Lifecycle::Analysed,
            Lifecycle::AnalysisFailed,
            Lifecycle::Preparing,
            Lifecycle::Prepared,
            Lifecycle::Started,
            Lifecycle::StartFailed,
            Lifecycle::Exited(Ending::Completed),
            Lifecycle::Exited(Ending::Failed),
            Lifecycle::GpuFailed,
            Lifecycle::NodeFailed,
            Lifecycle::Stopped,
            Lifecycle::Preempted,
            Lifecycle::TimedOut,
        ];
        prop_oneof![13 => select(plain.to_vec()), 1 => node().prop_map(|node| Lifecycle::StoppedOn { node })]
    }

    fn demand() -> impl Strategy<Value = Demand> {
        let take = prop_oneof![
            Just(GpuTake::Whole),
            count().prop_map(|share| GpuTake::Share(GpuShare::new(share))),
            number().prop_map(|bytes| GpuTake::Memory(Bytes::new(bytes))),
        ];
        let gpus =
            (count(), take, vec(text(), 0..3), option::of(number())).prop_map(|(count, take, models, memory)| {
                GpuDemand { count, take, models, min_memory: memory.map(Bytes::new) }
            });
        let labels = proptest::collection::btree_map(text(), text(), 0..3);
        let task = (number(), number(), option::of(gpus), labels).prop_map(|(cpu, ram, gpus, labels)| {
            let (cpu, ram) = (MilliCpu::new(cpu), Bytes::new(ram));
            TaskDemand { cpu, ram, gpus, labels, os: None, arch: None }
        });
        let gang = select(vec![Gang::Anywhere, Gang::Spread, Gang::Packed]);
        let pick = option::of((vec(node(), 0..4), 0..3_u16).prop_map(|(nodes, index)| match index {
            0 => Pick::Nodes(nodes),
            _ => Pick::AllGpus(nodes.into_iter().map(|node| GpuId { node, index }).collect()),
        }));
        let speed = (text(), 1..1_000_000_000_u64).prop_map(|(gpu, millionths)| GpuSpeed {
            gpu,
            speed: Speed::from_millionths(millionths).expect("it is above zero"),
            from: SpeedSource::File,
        });
        let speeds = option::of((text(), vec(speed, 0..3)));
        let speeds = speeds.prop_map(|found| found.map(|(reference, others)| Arc::new(Speeds { reference, others })));
        (count(), task, gang, pick, speeds).prop_map(|(tasks, task, gang, pick, speeds)| Demand {
            tasks,
            gang,
            pick,
            speeds,
            ..Demand::of(task)
        })
    }

    fn scaling() -> impl Strategy<Value = Scaling> {
        (count(), count(), number(), length()).prop_map(|(min, max, rate, window)| Scaling {
            min,
            max,
            target: RequestRate::new(rate),
            window,
            scale_up_delay: window,
            scale_down_delay: window,
        })
    }

    fn queued() -> QueuedPart {
        let pod_set = QueuedPodSet {
            name: "main".into(),
            count: 3,
            min_count: Some(2),
            in_turn: true,
            requests: [("cpu".into(), "500m".parse().expect("a quantity"))].into(),
            node_selector: [("zone".into(), "a".into())].into(),
            affinity: vec![NodeSelectorTerm::default()],
            tolerations: Vec::new(),
            topology: Some(QueuedTopology::Required("rack".into())),
        };
        let of_set = HeldPodSet {
            count: 2,
            flavors: [("cpu".into(), "spot".into())].into(),
            usage: [("cpu".into(), "1".parse().expect("a quantity"))].into(),
        };
        let held = HeldQuota { cluster_queue: "all".into(), since: -3, pod_sets: vec![of_set] };
        let workload = QueuedWorkload {
            namespace: "default".into(),
            name: "train".into(),
            uid: "u".into(),
            created: Some(-5),
            queue: "team".into(),
            priority: -1,
            pod_sets: vec![pod_set],
            held: Some(held),
        };
        QueuedPart { workload: Arc::new(workload), pod_set: Some(0) }
    }

    fn spec() -> impl Strategy<Value = JobSpec> {
        let retry = (option::of(count()), length(), count()).prop_map(|(limit, first, factor)| RetryPolicy {
            limit,
            backoff: Backoff { first, factor: Permille::new(factor), max: first },
        });
        let terms = (option::of(length()), any::<bool>()).prop_map(|(idle, first)| RunTerms {
            startup: if first { StartupOrder::MasterFirst } else { StartupOrder::Any },
            stop: if first { StopCriteria::MasterDone } else { StopCriteria::AllDone },
            idle: idle.map(IdleLimit::After),
            ..RunTerms::default()
        });
        let utilization = (option::of(length()), any::<bool>()).prop_map(|(window, all)| UtilizationOverrides {
            time_window: window,
            gpus: all.then_some(IdleGpus::All),
            from: if all { PolicySource::Profile } else { PolicySource::Configuration },
            ..UtilizationOverrides::default()
        });
        let names = (text(), option::of(text()), option::of(text()), option::of(text()));
        let numbers = (count(), any::<i32>(), option::of(length()), option::of(length()));
        let flags = (any::<bool>(), any::<bool>(), any::<bool>(), select(vec![Restart::Never, Restart::Always]));
        let when = select(Condition::ALL.map(|(_, when)| when).to_vec());
        let job = count().prop_map(|job| JobId::new(job as usize));
        let after = vec((job, when).prop_map(|(job, when)| Dependency { job, when }), 0..3);
        let slurm = (option::of(text()), option::of(text()), option::of(text()), option::of(text()), any::<bool>());
        let slurm = slurm.prop_map(|(partition, account, qos, reservation, requeue)| SlurmTerms {
            partition,
            account,
            qos,
            reservation,
            requeue,
        });
        let slurm = option::of(slurm);
        let pod = (text(), any::<bool>()).prop_map(|(name, is_bound)| {
            let mut pod = Pod::default();
            pod.metadata.name = name;
            pod.spec.node_name = is_bound.then(|| Arc::from("n"));
            pod
        });
        let parts = (option::of(scaling()), option::of(retry), terms, utilization, after, slurm, option::of(pod));
        (names, demand(), numbers, flags, parts).prop_map(|(names, demand, numbers, flags, parts)| JobSpec {
            name: names.0,
            demand: Arc::new(demand),
            replicas: numbers.0,
            scaling: parts.0.map(Box::new),
            priority: numbers.1,
            queue: names.1,
            user: names.2,
            project: names.3,
            estimate: numbers.2,
            time_limit: numbers.3,
            analyse: flags.0,
            restart: flags.3,
            retry: parts.1.map(Box::new),
            unselectable: if flags.1 { Unselectable::Refuse } else { Unselectable::Wait },
            checkpoints: flags.2,
            terms: Arc::new(parts.2),
            utilization: Arc::new(parts.3),
            // The record writes an empty list of dependencies before a limit, which a general serializer leaves out.
            run_limit: (flags.0 && !parts.4.is_empty()).then(|| Box::new(RunLimit::Singleton { name: "a".into() })),
            after: parts.4.into(),
            slurm: parts.5.map(Arc::new),
            pod: parts.6.map(Arc::new),
            queued: flags.2.then(|| Arc::new(queued())),
            shared_deadline: flags.1.then(|| {
                Arc::new(SharedDeadline { group: "ns/job".into(), after: SimDuration::from_secs(60), again: None })
            }),
            restarts_with: flags.2.then(|| "ns/group".into()),
            shared_retry: flags.0.then(|| {
                let restarts = Some(Restarts { most: 2, wait_for_all: true });
                Arc::new(SharedRetry { group: "ns/job".into(), failed: 1, ends_with: Some("ns/set".into()), restarts })
            }),
        })
    }

    fn sample() -> impl Strategy<Value = Input> {
        let levels = vec(option::of(count().prop_map(Permille::new)), 0..9);
        let memory = vec(option::of(number().prop_map(Bytes::new)), 0..9);
        (attempt(), number(), levels, memory).prop_map(|(attempt, at, utilization, memory)| {
            let (at, utilization, memory) = (SimTime::from_nanos(at), utilization.into(), memory.into());
            Input::Usage(UsageFact::Sample { attempt, at, utilization, memory })
        })
    }

    fn state() -> impl Strategy<Value = NodeState> {
        use NodeState::*;
        select(vec![Joining, Ready, NotReady, Unreachable, Maintenance, Gone])
    }

    fn shape() -> impl Strategy<Value = Arc<NodeShape>> {
        (number(), number(), vec((text(), number()), 0..3)).prop_map(|(cpu, ram, gpus)| {
            let gpu = |(model, memory): (Arc<str>, u64)| GpuShape::of(&model, Bytes::new(memory));
            let gpus = gpus.into_iter().map(gpu).collect();
            Arc::new(NodeShape::of(MilliCpu::new(cpu), Bytes::new(ram), gpus))
        })
    }

    fn input() -> impl Strategy<Value = Input> {
        let job = || count().prop_map(|job| JobId::new(job as usize));
        prop_oneof![
            (attempt(), fact()).prop_map(|(attempt, fact)| Input::Attempt { attempt, fact }),
            job().prop_map(|job| Input::User(UserRequest::Cancel { job })),
            (node(), state(), text(), shape()).prop_map(|(node, state, name, shape)| {
                Input::Fleet(FleetFact::NodeDeclared { node, state, spec: NodeSpec { name, shape } })
            }),
            (job(), spec()).prop_map(|(job, spec)| Input::Submit { job, spec: Arc::new(spec) }),
            Just(Input::Wakeup),
            sample(),
            (job(), count()).prop_map(|(job, replicas)| Input::User(UserRequest::Scale { job, replicas })),
        ]
    }

    /// The tasks, CPU, RAM, GPUs and blocks of a claim.
    type Parts = (u32, u64, u64, Vec<GpuClaim>, Vec<u16>);

    fn placement() -> impl Strategy<Value = Placement> {
        let gpu = (any::<u16>(), count(), number()).prop_map(|(index, share, memory)| GpuClaim {
            index,
            share: GpuShare::new(share),
            memory: Bytes::new(memory),
        });
        let claim = (count(), number(), number(), vec(gpu, 0..5), vec(any::<u16>(), 0..6));
        proptest::collection::btree_map(node(), claim, 1..4).prop_map(|claims| {
            let claim = |(node, (tasks, cpu, ram, gpus, blocks)): (NodeId, Parts)| {
                let (cpu, ram) = (MilliCpu::new(cpu), Bytes::new(ram));
                NodeClaim { node, tasks, cpu, ram, gpus: gpus.into(), blocks: blocks.into(), sets: None }
            };
            Placement::new(claims.into_iter().map(claim).collect())
        })
    }

    fn event() -> impl Strategy<Value = Event> {
        let reasons = || {
            vec((reason(), 1..100_000_u32), 0..4).prop_map(|counts| {
                let mut histogram = Histogram::default();
                counts.into_iter().for_each(|(reason, count)| histogram.add(reason, count));
                histogram
            })
        };
        let phase = || select(&Phase::ALL[..]);
        let outcome = || select(&Outcome::ALL[..]);
        let refusal = || select(vec![Refusal::Unfit, Refusal::Never]);
        prop_oneof![
            (attempt(), refusal(), reasons()).prop_map(|(attempt, refusal, reasons)| Event::Held {
                attempt,
                refusal,
                reasons
            }),
            (attempt(), -1e9..1e9_f64, placement()).prop_map(|(attempt, score, placement)| Event::Placed {
                attempt,
                score: Score::new(score),
                placement
            }),
            attempt().prop_map(|attempt| Event::AnalysisStarted { attempt }),
            (attempt(), phase(), phase(), option::of(reason())).prop_map(|(attempt, from, to, because)| Event::Moved {
                attempt,
                from,
                to,
                because
            }),
            (attempt(), phase(), outcome(), reason(), vec(node(), 0..3)).prop_map(
                |(attempt, from, outcome, because, kept)| {
                    Event::Ended { attempt, from, outcome, because, kept: kept.into() }
                }
            ),
            (attempt(), node()).prop_map(|(attempt, node)| Event::ClaimFreed { attempt, node }),
            (attempt(), number(), reason()).prop_map(|(attempt, at, because)| Event::Retry {
                attempt,
                at: SimTime::from_nanos(at),
                because
            }),
            attempt().prop_map(|attempt| Event::ReplicaAdded { attempt }),
            (count(), outcome(), reason()).prop_map(|(job, outcome, because)| Event::JobEnded {
                job: JobId::new(job as usize),
                outcome,
                because,
            }),
            (attempt(), phase()).prop_map(|(attempt, phase)| Event::DeadlineExpired { attempt, phase }),
            (text(), option::of(refusal()), reasons()).prop_map(|(name, refusal, reasons)| Event::Evaluated {
                name,
                refusal,
                reasons
            }),
        ]
    }

    fn by_serde(said: &impl Serialize) -> Vec<u8> {
        let mut bytes = Vec::new();
        Compact(&mut bytes).by_serde(said);
        bytes
    }

    proptest! {
        #[test]
        fn an_input_has_the_bytes_that_serde_gives_it(inputs in vec(input(), 1..4)) {
            let mut shared = Shared::default();
            // Write the inputs twice, because the second pass reads from the cache.
            for input in inputs.iter().chain(&inputs) {
                let mut bytes = Vec::new();
                write_input(input, &mut shared, &mut bytes);
                prop_assert_eq!(bytes, by_serde(input));
            }
        }

        #[test]
        fn an_event_has_the_bytes_that_serde_gives_it(event in event()) {
            let mut bytes = Vec::new();
            write_event(&event, &mut bytes);
            prop_assert_eq!(bytes, by_serde(&event));
        }
    }

    /// Uses more demands than the cache holds, each twice.
    #[test]
    fn demands_that_take_turns_in_one_place_are_told_apart() {
        let spec = |tasks| {
            let task = TaskDemand::cpu_only(MilliCpu::new(1));
            Arc::new(JobSpec::of("a".into(), Demand { tasks, ..Demand::of(task) }))
        };
        let specs: Vec<_> = (0..4 * MOST_FORMS as u32).map(spec).collect();
        let mut shared = Shared::default();
        for spec in specs.iter().chain(&specs) {
            let input = Input::Submit { job: JobId::new(0), spec: Arc::clone(spec) };
            let mut bytes = Vec::new();
            write_input(&input, &mut shared, &mut bytes);
            assert_eq!(bytes, by_serde(&input));
        }
    }
}

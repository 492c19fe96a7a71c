//! The contents of a timeline: where and when each attempt ran, and why it waited before that.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::timeline::about;
use dryrack_event::{Event, FleetFact, Histogram, Input, Outcome, Phase, Reason, Sink};
use dryrack_fleet::{NodeShape, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, NodeId};
use dryrack_metrics::RunAccount;
use dryrack_units::{Score, SimDuration, SimTime};

/// Collects spans from the records of a run.
#[derive(Default)]
pub struct Spans {
    /// The spans, in the order of their placement.
    pub spans: Vec<Span>,
    /// For each node, the periods in which it was not ready. The last one may have no end.
    pub down: Vec<Vec<(SimTime, Option<SimTime>)>>,
    shapes: Vec<Arc<NodeShape>>,
    /// Spans that still hold a claim, or a part of it.
    open: BTreeMap<AttemptId, usize>,
    waiting: BTreeMap<AttemptId, (SimTime, Option<Histogram>)>,
}

/// One placed attempt of a replica.
#[derive(Clone, Debug)]
pub struct Span {
    pub attempt: AttemptId,
    pub placement: Placement,
    /// When the attempt began to wait.
    pub wanted: SimTime,
    /// The last stated reasons for its wait.
    pub held: Option<Histogram>,
    pub placed: SimTime,
    pub score: Score,
    pub started: Option<SimTime>,
    /// When its claim was released on all nodes except those in `kept`. `None` if it was still held at the end of the
    /// attempt.
    pub freed: Option<SimTime>,
    /// Nodes that kept their part of the claim longer, each with the time of its release.
    pub kept: SmallVec<[(NodeId, Option<SimTime>); 1]>,
    pub ended: Option<(Outcome, Reason)>,
}

impl Span {
    /// When its claim on this node was released.
    pub fn freed_on(&self, node: NodeId) -> Option<SimTime> {
        match self.kept.iter().find(|(kept, _)| *kept == node) {
            Some((_, freed)) => *freed,
            None => self.freed,
        }
    }

    /// The history of the attempt in a sentence or two.
    pub fn describe(&self, accounts: &RunAccount) -> String {
        let since = |at: SimTime| about(at.since(SimTime::ZERO));
        let job = &accounts.jobs[self.attempt.job.index()];
        let waited = self.placed.since(self.wanted);
        let mut text = format!("{}: asked for at {}", attempt_name(self.attempt, accounts), since(self.wanted));
        match &self.held {
            _ if waited == SimDuration::ZERO => text.push_str(", placed at once"),
            None => text.push_str(&format!(", placed {} later", about(waited))),
            Some(held) => {
                let reasons: Vec<String> = held.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
                text.push_str(&format!(", waited {} ({})", about(waited), reasons.join(", ")));
            }
        }
        text.push_str(&format!("; on {}", self.places(accounts)));
        if self.score != Score::ZERO {
            text.push_str(&format!(", with a score of {}", self.score));
        }
        match (self.started, self.freed) {
            (Some(started), Some(freed)) => {
                text.push_str(&format!("; ran from {} for {}", since(started), about(freed.since(started))));
            }
            (Some(started), None) => text.push_str(&format!("; runs since {}", since(started))),
            (None, Some(freed)) => text.push_str(&format!("; left it at {} without having run", since(freed))),
            (None, None) => text.push_str("; has not started"),
        }
        match self.ended {
            Some((Outcome::Completed, _)) => text.push_str("; completed"),
            Some((outcome, reason)) => {
                text.push_str(&format!("; {}: {}", outcome.name().replace('_', " "), reason.text()));
            }
            None if self.freed.is_some() => text.push_str("; is to be placed again"),
            None => {}
        }
        if let Some(user) = &job.spec.user {
            text.push_str(&format!("; of {user}"));
        }
        text
    }

    /// The placement, such as `alpha/0 alpha/1`. A node on which the attempt holds no GPU appears by its name only.
    pub fn places(&self, accounts: &RunAccount) -> String {
        let names = &accounts.names;
        let of = |claim: &dryrack_fleet::NodeClaim| match claim.gpus.is_empty() {
            true => vec![names.node(claim.node).to_string()],
            false => claim
                .gpus
                .iter()
                .map(|part| names.gpu(GpuId { node: claim.node, index: part.index }))
                .collect::<Vec<_>>(),
        };
        self.placement.claims().iter().flat_map(of).collect::<Vec<_>>().join(" ")
    }
}

/// The name of an attempt: `chat`, or `chat[2]` for a job with several replicas. The attempt is added unless it is the
/// first.
pub(super) fn attempt_name(attempt: AttemptId, accounts: &RunAccount) -> String {
    let job = &accounts.jobs[attempt.job.index()];
    let mut name = accounts.names.job(attempt.job).to_string();
    if job.replicas.len() > 1 {
        name.push_str(&format!("[{}]", attempt.replica));
    }
    if attempt.number > 1 {
        name.push_str(&format!(", attempt {}", attempt.number));
    }
    name
}

/// A lane of the timeline. It shows one GPU, or one node for attempts without a GPU.
#[derive(Clone, Debug)]
pub struct Lane {
    pub node: NodeId,
    pub gpu: Option<u16>,
    /// The bars, sorted by time.
    pub bars: Vec<Bar>,
    /// The largest number of bars at the same time.
    pub rows: usize,
}

/// A span on a lane. Overlapping bars are in different rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The index of the span in [`Spans::spans`].
    pub span: usize,
    pub row: usize,
    pub from: SimTime,
    pub to: SimTime,
}

impl Spans {
    /// The lanes in order: every GPU of every node, and every node that has no GPU or runs an attempt without a GPU.
    /// Open spans extend to the end.
    pub fn lanes(&self, end: SimTime) -> Vec<Lane> {
        let mut bars: BTreeMap<(NodeId, Option<u16>), Vec<Bar>> = BTreeMap::new();
        for (index, shape) in self.shapes.iter().enumerate() {
            let gpus = (0..shape.gpus.len()).map(|gpu| Some(gpu as u16));
            let all = gpus.chain(shape.gpus.is_empty().then_some(None));
            all.for_each(|gpu| drop(bars.insert((NodeId::new(index), gpu), Vec::new())));
        }
        for (index, span) in self.spans.iter().enumerate() {
            for claim in span.placement.claims() {
                let to = span.freed_on(claim.node).unwrap_or(end).max(span.placed);
                let bar = Bar { span: index, row: 0, from: span.placed, to };
                let gpus = claim.gpus.iter().map(|part| Some(part.index));
                for gpu in gpus.chain(claim.gpus.is_empty().then_some(None)) {
                    bars.entry((claim.node, gpu)).or_default().push(bar);
                }
            }
        }
        bars.into_iter().map(|((node, gpu), bars)| lane(node, gpu, bars)).collect()
    }

    /// Whether the node is an instance that its fleet's cloud never created.
    pub fn never_existed(&self, node: NodeId, accounts: &RunAccount) -> bool {
        let account = &accounts.nodes[node.index()];
        let was_always_down = matches!(self.down[node.index()].as_slice(), [(SimTime::ZERO, None)]);
        account.there_ns == 0 && accounts.is_made(account) && was_always_down
    }

    fn enter(&mut self, attempt: AttemptId, at: SimTime) {
        self.waiting.insert(attempt, (at, None));
    }

    fn set_state(&mut self, node: NodeId, at: SimTime, state: NodeState) {
        let down = &mut self.down[node.index()];
        match (down.last_mut(), state == NodeState::Ready) {
            (Some((_, end @ None)), true) => *end = Some(at),
            (Some((_, None)), false) | (_, true) => {}
            (_, false) => down.push((at, None)),
        }
    }

    fn left(&mut self, attempt: AttemptId, at: SimTime, kept: &[NodeId]) {
        let Some(index) = self.open.get(&attempt).copied() else { return };
        let span = &mut self.spans[index];
        span.freed = Some(at);
        span.kept = kept.iter().map(|node| (*node, None)).collect();
        if kept.is_empty() {
            self.open.remove(&attempt);
        }
    }
}

/// Puts each bar into the first row that is free when the bar starts.
fn lane(node: NodeId, gpu: Option<u16>, mut bars: Vec<Bar>) -> Lane {
    bars.sort_by_key(|bar| (bar.from, bar.span));
    let mut ends: Vec<SimTime> = Vec::new();
    for bar in &mut bars {
        bar.row = ends.iter().position(|end| *end <= bar.from).unwrap_or(ends.len());
        match ends.get_mut(bar.row) {
            Some(end) => *end = bar.to,
            None => ends.push(bar.to),
        }
    }
    Lane { node, gpu, bars, rows: ends.len().max(1) }
}

impl Sink for Spans {
    fn input(&mut self, _step: u64, at: SimTime, input: &Input) {
        match input {
            Input::Fleet(FleetFact::NodeDeclared { node, state, spec }) => {
                self.shapes.push(Arc::clone(&spec.shape));
                self.down.push(Vec::new());
                self.set_state(*node, at, *state);
            }
            Input::Submit { job, spec } => {
                (0..spec.replicas).for_each(|replica| self.enter(AttemptId { job: *job, replica, number: 1 }, at));
            }
            _ => {}
        }
    }

    fn event(&mut self, _step: u64, at: SimTime, event: &Event) {
        match event {
            Event::NodeChanged { node, to, .. } => self.set_state(*node, at, *to),
            Event::Held { attempt, reasons, .. } => {
                if let Some((_, held)) = self.waiting.get_mut(attempt) {
                    *held = Some(reasons.clone());
                }
            }
            Event::Placed { attempt, score, placement } => {
                let (wanted, held) = self.waiting.remove(attempt).unwrap_or((at, None));
                self.open.insert(*attempt, self.spans.len());
                self.spans.push(Span {
                    attempt: *attempt,
                    placement: placement.clone(),
                    wanted,
                    held,
                    placed: at,
                    score: *score,
                    started: None,
                    freed: None,
                    kept: SmallVec::new(),
                    ended: None,
                });
            }
            Event::Moved { attempt, to, .. } => {
                if *to == Phase::Running
                    && let Some(index) = self.open.get(attempt)
                {
                    self.spans[*index].started.get_or_insert(at);
                }
                if !to.holds_claim() && self.open.contains_key(attempt) {
                    self.left(*attempt, at, &[]);
                    self.enter(*attempt, at);
                }
            }
            Event::Ended { attempt, outcome, because, kept, .. } => {
                self.waiting.remove(attempt);
                if let Some(index) = self.open.get(attempt) {
                    self.spans[*index].ended = Some((*outcome, *because));
                }
                self.left(*attempt, at, kept);
            }
            Event::ClaimFreed { attempt, node } => {
                let Some(index) = self.open.get(attempt).copied() else { return };
                let kept = &mut self.spans[index].kept;
                kept.iter_mut().filter(|(known, _)| known == node).for_each(|(_, freed)| *freed = Some(at));
                if kept.iter().all(|(_, freed)| freed.is_some()) {
                    self.open.remove(attempt);
                }
            }
            Event::Retry { attempt, .. } | Event::ReplicaAdded { attempt } => self.enter(*attempt, at),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_overlap_are_in_different_rows() {
        let bar = |span, from, to| Bar { span, row: 0, from: SimTime::from_secs(from), to: SimTime::from_secs(to) };
        let found = lane(NodeId::new(0), Some(0), vec![bar(0, 0, 10), bar(1, 5, 8), bar(2, 8, 12), bar(3, 12, 13)]);
        let rows: Vec<usize> = found.bars.iter().map(|bar| bar.row).collect();
        // The second bar begins during the first one, and the third bar when the second ends. Both rows are free for
        // the fourth.
        assert_eq!((rows, found.rows), (vec![0, 1, 1, 0], 2));
    }
}

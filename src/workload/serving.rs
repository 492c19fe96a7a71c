//! Services for large language models: the requests that a service receives, and how long its replicas take for them.
//!
//! A replica works in steps, with continuous batching (Yu and others, *Orca: A Distributed Serving System for
//! Transformer-Based Generative Models*, OSDI 2022). A step processes the prompts of new requests (prefill), or makes
//! one token for each running sequence (decode), or both. The duration of a step follows from what is in it, either by
//! stated parameters or by a measured table ([`StepTable`]). Nothing is assumed about a model or a GPU.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step_table::StepTable;
use dryrack_units::{RequestRate, SimDuration};

/// A request: when it arrives, counted from the submission of the service, and its size in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceRequest {
    pub at: SimDuration,
    /// The number of tokens of the prompt, at least 1.
    pub input: u32,
    /// The number of tokens of the answer, at least 1.
    pub output: u32,
}

impl ServiceRequest {
    /// The largest number of tokens that the request keeps in the KV cache.
    pub fn tokens(&self) -> u64 {
        u64::from(self.input) + u64::from(self.output)
    }
}

/// What a service receives and how each of its replicas works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Serving {
    pub steps: StepModel,
    pub batching: Batching,
    pub limits: ServingLimits,
    /// All requests in order of arrival.
    pub requests: Arc<[ServiceRequest]>,
    /// The number of clients of a closed loop. Each sends its next request when its last one has ended, and the times of
    /// the requests have no meaning. `None` if requests arrive at their times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The time between two reports about served requests.
    pub report_every: SimDuration,
}

impl Serving {
    /// The number of requests in the window that ends `until` after the submission, its end included.
    pub fn count(&self, until: SimDuration, window: SimDuration) -> u64 {
        let before = |time: SimDuration| self.requests.partition_point(|request| request.at <= time) as u64;
        let from = until.as_nanos().checked_sub(window.as_nanos()).map(SimDuration::from_nanos);
        before(until) - from.map_or(0, before)
    }

    /// The time after which the count no longer changes.
    pub fn settled(&self, window: SimDuration) -> SimDuration {
        self.requests.last().map_or(SimDuration::ZERO, |request| request.at.saturating_add(window))
    }
}

/// What one replica can hold at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingLimits {
    /// The capacity of the KV cache in tokens. A request is admitted only if its prompt and its whole answer fit beside
    /// those of all admitted requests.
    pub kv_cache: u64,
    /// The number of sequences that are processed at the same time.
    pub max_sequences: u32,
    /// The number of prompt tokens in one step. Without chunks, a longer prompt has a step for itself. With chunks, the
    /// tokens of running sequences count too.
    pub max_batched_tokens: u64,
}

/// How prompts and running sequences share steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Batching {
    /// A step is either a prefill or a decode step, and prefill goes first. Running sequences wait during a prefill.
    PrefillFirst,
    /// Prompts are cut into chunks that share steps with running sequences (Agrawal and others, *Taming
    /// Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve*, OSDI 2024).
    Chunked,
}

/// How long steps take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepModel {
    Stated(StatedSteps),
    Table(Arc<StepTable>),
}

/// Stated parameters of steps. A step with n prompt tokens and s running sequences, which have c tokens of context
/// together, takes `base + n / prefill + s * per_sequence + c * per_1k_context / 1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StatedSteps {
    /// Prompt tokens per second.
    pub prefill: RequestRate,
    pub base: SimDuration,
    pub per_sequence: SimDuration,
    pub per_1k_context: SimDuration,
}

pub(super) const PICOS: i128 = 1000;
const PICOS_PER_SEC: i128 = 1_000_000_000_000;

/// Consecutive decode steps of the same sequences. Step j, counted from 0, takes `(first + j * more) / parts`
/// picoseconds. The sums are exact; only the end of a run is rounded down to whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeRun {
    pub(super) first: i128,
    pub(super) more: i128,
    pub(super) parts: i128,
    /// The number of steps for which this is valid, at least 1.
    pub steps: u64,
}

impl DecodeRun {
    /// The duration of the first `steps` steps, rounded down.
    pub fn time(&self, steps: u64) -> SimDuration {
        let steps = i128::from(steps);
        let picos = (self.first * steps + self.more * (steps * (steps - 1) / 2)) / self.parts;
        SimDuration::from_nanos(u64::try_from(picos / PICOS).unwrap_or(u64::MAX))
    }

    /// The smallest number of steps, at least 1, that take at least `time`. At most `most`.
    pub fn steps_within(&self, time: SimDuration, most: u64) -> u64 {
        let (mut low, mut high) = (1, most.max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.time(middle) >= time { high = middle } else { low = middle + 1 }
        }
        low
    }
}

impl StepModel {
    /// The run of decode steps of `sequences` sequences, which have `context` tokens of context together.
    pub fn decode(&self, sequences: u64, context: u64) -> DecodeRun {
        match self {
            StepModel::Stated(stated) => {
                let (sequences, context) = (i128::from(sequences), i128::from(context));
                let picos = |length: SimDuration| i128::from(length.as_nanos()) * PICOS;
                let per_context = picos(stated.per_1k_context);
                let fixed = picos(stated.base) + sequences * picos(stated.per_sequence);
                let (first, more) = (fixed * 1000 + context * per_context, sequences * per_context);
                DecodeRun { first, more, parts: 1000, steps: u64::MAX }
            }
            StepModel::Table(table) => table.decode(sequences, context),
        }
    }

    /// The duration of a step that processes `prompts` whole prompts with `tokens` tokens together.
    pub fn prefill(&self, prompts: u64, tokens: u64) -> SimDuration {
        match self {
            StepModel::Stated(stated) => stated.mixed(tokens, 0, 0),
            StepModel::Table(table) => table.prefill(prompts, tokens),
        }
    }

    /// The largest number of whole prompts in one step. `None` if there is no limit.
    pub fn most_prompts(&self) -> Option<u64> {
        match self {
            StepModel::Stated(_) => None,
            StepModel::Table(table) => Some(table.most_prompts()),
        }
    }
}

impl StatedSteps {
    /// The duration of a step with this many prompt tokens and running sequences, rounded down.
    pub fn mixed(&self, tokens: u64, sequences: u64, context: u64) -> SimDuration {
        let run = StepModel::Stated(*self).decode(sequences, context);
        // The rate is in thousandths of a token per second.
        let prefill = i128::from(tokens) * PICOS_PER_SEC * 1000 / i128::from(self.prefill.get().max(1));
        let picos = run.first / run.parts + prefill;
        SimDuration::from_nanos(u64::try_from(picos / PICOS).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated() -> StatedSteps {
        StatedSteps {
            prefill: RequestRate::new(10_000_000),
            base: SimDuration::from_nanos(8_000_000),
            per_sequence: SimDuration::from_nanos(50_000),
            per_1k_context: SimDuration::from_nanos(20_000),
        }
    }

    /// 4 sequences with 4,000 tokens: 8 ms + 4 * 0.05 ms + 4 * 0.02 ms = 8.28 ms. Each next step has 4 more tokens, which
    /// take 0.08 us. Ten steps take 82.8 ms + 45 * 0.08 us = 82.8036 ms.
    #[test]
    fn the_sum_of_steps_is_exact() {
        let run = StepModel::Stated(stated()).decode(4, 4000);
        assert_eq!(run.time(1).as_nanos(), 8_280_000);
        assert_eq!(run.time(10).as_nanos(), 82_803_600);
        let nanos = SimDuration::from_nanos;
        let rows = [(0, 1), (8_280_000, 1), (8_280_001, 2), (82_803_600, 10), (82_803_601, 11), (1 << 40, 20)];
        for (time, steps) in rows {
            assert_eq!(run.steps_within(nanos(time), 20), steps, "{time} ns");
        }
    }

    /// 500 tokens at 10,000 per second take 50 ms, beside the 8.28 ms of the running sequences.
    #[test]
    fn a_step_has_prompts_and_sequences() {
        assert_eq!(stated().mixed(500, 4, 4000).as_nanos(), 58_280_000);
        assert_eq!(StepModel::Stated(stated()).prefill(2, 500).as_nanos(), 58_000_000);
    }
}

//! One replica of a service: its queue, its batch and its steps.
//!
//! At the end of each step, requests whose answer is complete leave the batch. Then waiting requests are admitted in order,
//! as long as the first one fits: its prompt and its whole answer must fit into the KV cache beside those of all
//! admitted requests, and the number of sequences is limited. (TensorRT-LLM calls this rule *guaranteed no evict*. A
//! server that admits more and evicts later, as vLLM does, admits earlier and repeats work.) A request that arrives
//! during a step waits for its end. The first token of a request comes with the end of the step that completes its
//! prompt.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Batching, DecodeRun, Serving, StepModel};

#[derive(Default)]
pub(super) struct Replica {
    /// Requests that are not admitted, in order of arrival.
    waiting: VecDeque<u32>,
    /// Admitted requests whose prompts are not processed, and the number of tokens that are.
    prompts: VecDeque<(u32, u64)>,
    /// Running sequences, by the number of the decode step that ends them.
    running: BinaryHeap<Reverse<(u64, u32)>>,
    /// The number of decode steps so far.
    steps: u64,
    /// The tokens of context of all running sequences.
    context: u64,
    /// The tokens of the KV cache that admitted requests will need.
    reserved: u64,
    now: Option<Working>,
    pub is_draining: bool,
}

/// The steps in progress.
struct Working {
    since: SimTime,
    ends: SimTime,
    what: Steps,
}

enum Steps {
    /// One step over whole prompts: the first ones.
    Prefill { prompts: usize },
    /// One step over a part of the prompts, in which all running sequences get a token.
    Mixed { tokens: u64 },
    /// Some steps without prompts.
    Decode { run: DecodeRun, steps: u64 },
}

/// What a step has brought about.
#[derive(Default)]
pub(super) struct Ended {
    pub with_first_token: Vec<u32>,
    pub whole: Vec<u32>,
}

impl Replica {
    /// The number of requests that have not ended.
    pub fn load(&self) -> u32 {
        (self.waiting.len() + self.prompts.len() + self.running.len()) as u32
    }

    /// When the current steps end. `None` if the replica is idle.
    pub fn ends(&self) -> Option<SimTime> {
        self.now.as_ref().map(|working| working.ends)
    }

    /// Takes a request that has arrived. [`Replica::wake`] follows the last one of the instant.
    pub fn take(&mut self, request: u32) {
        self.waiting.push_back(request);
    }

    /// Begins to work on requests that have arrived at this instant.
    pub fn wake(&mut self, serving: &Serving, now: SimTime) {
        match &self.now {
            None => self.begin_step(serving, now),
            // The request that is admitted next cuts the decode steps short: it is admitted after the current one.
            Some(Working { since, what: Steps::Decode { run, steps }, .. })
                if self.waiting.front().is_some_and(|first| self.fits(serving, *first)) =>
            {
                let (since, run) = (*since, *run);
                let steps = run.steps_within(now.since(since), *steps);
                let ends = since.saturating_add(run.time(steps));
                self.now = Some(Working { since, ends, what: Steps::Decode { run, steps } });
            }
            Some(_) => {}
        }
    }

    /// Whether a request can be admitted beside the admitted ones.
    fn fits(&self, serving: &Serving, request: u32) -> bool {
        let limits = &serving.limits;
        let needs = serving.requests[request as usize].tokens();
        self.reserved + needs <= limits.kv_cache
            && self.prompts.len() + self.running.len() < limits.max_sequences as usize
    }

    fn admit(&mut self, serving: &Serving) {
        while let Some(request) = self.waiting.front().copied().filter(|request| self.fits(serving, *request)) {
            self.waiting.pop_front();
            self.reserved += serving.requests[request as usize].tokens();
            self.prompts.push_back((request, 0));
        }
    }

    /// Ends the current steps and begins the next ones.
    pub fn end_step(&mut self, serving: &Serving, now: SimTime) -> Ended {
        let working = self.now.take().expect("only a working replica ends a step");
        let mut ended = Ended::default();
        match working.what {
            Steps::Prefill { prompts } => {
                for _ in 0..prompts {
                    let (request, _) = self.prompts.pop_front().expect("the prompts of this step");
                    self.has_first_token(serving, request, &mut ended);
                }
            }
            Steps::Mixed { mut tokens } => {
                self.decode(serving, 1, &mut ended);
                while tokens > 0 {
                    let (request, done) = self.prompts.front_mut().expect("the prompts of this step");
                    let part = tokens.min(u64::from(serving.requests[*request as usize].input) - *done);
                    (*done, tokens) = (*done + part, tokens - part);
                    if *done == u64::from(serving.requests[*request as usize].input) {
                        let request = *request;
                        self.prompts.pop_front();
                        self.has_first_token(serving, request, &mut ended);
                    }
                }
            }
            Steps::Decode { steps, .. } => self.decode(serving, steps, &mut ended),
        }
        self.begin_step(serving, now);
        ended
    }

    fn has_first_token(&mut self, serving: &Serving, request: u32, ended: &mut Ended) {
        let size = serving.requests[request as usize];
        ended.with_first_token.push(request);
        if size.output <= 1 {
            self.reserved -= size.tokens();
            ended.whole.push(request);
        } else {
            self.running.push(Reverse((self.steps + u64::from(size.output) - 1, request)));
            self.context += u64::from(size.input) + 1;
        }
    }

    /// Adds tokens to all running sequences, and ends those that are whole. None of them ends earlier than after all
    /// these steps.
    fn decode(&mut self, serving: &Serving, steps: u64, ended: &mut Ended) {
        self.steps += steps;
        self.context += steps * self.running.len() as u64;
        while let Some(Reverse((_, request))) = self.running.peek().copied().filter(|next| next.0.0 <= self.steps) {
            self.running.pop();
            let size = serving.requests[request as usize];
            self.context -= size.tokens();
            self.reserved -= size.tokens();
            ended.whole.push(request);
        }
    }

    fn begin_step(&mut self, serving: &Serving, now: SimTime) {
        if !self.is_draining {
            self.admit(serving);
        }
        let sequences = self.running.len() as u64;
        let (length, what) = match (self.prompts.is_empty(), serving.batching, &serving.steps) {
            (true, ..) if sequences == 0 => return,
            (true, _, steps) => {
                let Reverse((ends, _)) = self.running.peek().expect("a sequence runs");
                let run = steps.decode(sequences, self.context);
                let steps = (ends - self.steps).min(run.steps);
                (run.time(steps), Steps::Decode { run, steps })
            }
            (false, Batching::Chunked, StepModel::Stated(stated)) => {
                let room = serving.limits.max_batched_tokens.saturating_sub(sequences).max(1);
                let left = |(request, done): &(u32, u64)| u64::from(serving.requests[*request as usize].input) - done;
                let tokens = room.min(self.prompts.iter().map(left).sum());
                (stated.mixed(tokens, sequences, self.context), Steps::Mixed { tokens })
            }
            (false, Batching::PrefillFirst | Batching::Chunked, steps) => {
                let (prompts, tokens) = self.whole_prompts(serving);
                (steps.prefill(prompts as u64, tokens), Steps::Prefill { prompts })
            }
        };
        // A step takes at least a nanosecond, so that time goes on.
        let length = length.max(SimDuration::from_nanos(1));
        self.now = Some(Working { since: now, ends: now.saturating_add(length), what });
    }

    /// The number of prompts in the next prefill step, at least 1, and their tokens.
    fn whole_prompts(&self, serving: &Serving) -> (usize, u64) {
        let most = serving.steps.most_prompts().unwrap_or(u64::MAX);
        let (mut count, mut sum) = (0, 0);
        for (request, _) in &self.prompts {
            let tokens = u64::from(serving.requests[*request as usize].input);
            if count > 0 && (count as u64 >= most || sum + tokens > serving.limits.max_batched_tokens) {
                break;
            }
            (count, sum) = (count + 1, sum + tokens);
        }
        (count, sum)
    }

    /// Takes all requests that are not admitted.
    pub fn give_back_waiting(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.waiting).into()
    }

    /// All requests: those that are admitted, and those that are not.
    pub fn into_requests(self) -> (Vec<u32>, Vec<u32>) {
        let running = self.running.into_iter().map(|Reverse((_, request))| request);
        (self.prompts.into_iter().map(|(request, _)| request).chain(running).collect(), self.waiting.into())
    }
}

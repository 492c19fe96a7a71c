//! The ready and taken capacity of one node, integrated over time.

use std::sync::Arc;

use smallvec::SmallVec;

use dryrack_fleet::{Electricity, GpuState, NodeClaim, NodeSpec, NodeState};
use dryrack_scheduler::{Free, is_large_enough, is_of_type};
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimTime};
use dryrack_workload::{GpuDemand, GpuTake};

/// The account of one node. Integrals are in nanoseconds times thousandths of a GPU or of a core.
#[derive(Clone, Debug)]
pub struct NodeAccount {
    pub spec: Arc<NodeSpec>,
    pub state: NodeState,
    gpus: Vec<GpuAccount>,
    /// The number of usable GPUs that are wholly free, and the number of usable GPUs that are taken in part.
    whole: u32,
    partial: u32,
    cpu_taken: MilliCpu,
    ram_taken: Bytes,
    now: Rates,
    since: SimTime,
    pub ready_ns: u128,
    /// How long the node was not gone, in nanoseconds.
    pub there_ns: u128,
    /// The capacity while the node was ready. Only GPUs in a usable state count.
    pub gpu_ready: u128,
    pub cpu_ready: u128,
    /// The part of that capacity that was taken.
    pub gpu_taken_ready: u128,
    pub cpu_taken_ready: u128,
    /// The taken capacity, including the time when the node was not ready.
    pub gpu_taken: u128,
    pub cpu_taken_total: u128,
    /// The emissions per kWh, summed over the time during which the node was not gone, in nanoseconds times milligrams;
    /// and this sum weighted by the taken CPU.
    pub there_emitted: u128,
    pub cpu_emitted: u128,
    electricity: Option<Arc<Electricity>>,
    /// The number of runs that were placed on the node.
    pub placed: u64,
}

#[derive(Clone, Copy, Debug)]
struct GpuAccount {
    state: GpuState,
    share: GpuShare,
    memory: Bytes,
    holders: u32,
    /// The taken part of the GPU in thousandths, as computed by `NodeAccount::gpu_part`.
    part: u64,
}

/// The current totals in thousandths, which are constant between two changes of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    pub gpu_ready: u64,
    pub gpu_taken: u64,
    gpu_taken_ready: u64,
    pub cpu_taken: u64,
}

const WHOLE: u64 = GpuShare::WHOLE.get() as u64;

fn is_partial(part: u64) -> bool {
    0 < part && part < WHOLE
}

impl NodeAccount {
    pub(super) fn new(spec: &NodeSpec, state: NodeState, at: SimTime) -> NodeAccount {
        let gpu =
            GpuAccount { state: GpuState::Ready, share: GpuShare::ZERO, memory: Bytes::ZERO, holders: 0, part: 0 };
        let mut node = NodeAccount {
            spec: Arc::new(spec.clone()),
            state,
            gpus: vec![gpu; spec.shape.gpus.len()],
            whole: 0,
            partial: 0,
            cpu_taken: MilliCpu::ZERO,
            ram_taken: Bytes::ZERO,
            now: Rates::default(),
            since: at,
            ready_ns: 0,
            there_ns: 0,
            gpu_ready: 0,
            cpu_ready: 0,
            gpu_taken_ready: 0,
            cpu_taken_ready: 0,
            gpu_taken: 0,
            cpu_taken_total: 0,
            there_emitted: 0,
            cpu_emitted: 0,
            electricity: None,
            placed: 0,
        };
        node.count();
        node
    }

    /// The account of a node for which electricity is counted.
    pub(super) fn with_electricity(self, electricity: Option<&Arc<Electricity>>) -> NodeAccount {
        let is_counted = self.spec.shape.power.is_some();
        NodeAccount { electricity: electricity.filter(|_| is_counted).cloned(), ..self }
    }

    pub(super) fn current(&self) -> Rates {
        self.now
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == NodeState::Ready
    }

    /// Adds the current totals for the time since the last change.
    pub(super) fn settle(&mut self, at: SimTime) {
        let length = u128::from(at.since(self.since).as_nanos());
        let from = std::mem::replace(&mut self.since, at);
        if length == 0 {
            return;
        }
        if self.state != NodeState::Gone {
            self.there_ns += length;
        }
        if let Some(electricity) = &self.electricity {
            let emitted = electricity.emitted(from, at);
            self.there_emitted += if self.state == NodeState::Gone { 0 } else { emitted };
            self.cpu_emitted += emitted * u128::from(self.now.cpu_taken);
        }
        self.gpu_taken += length * u128::from(self.now.gpu_taken);
        self.cpu_taken_total += length * u128::from(self.now.cpu_taken);
        if self.is_ready() {
            self.ready_ns += length;
            self.gpu_ready += length * u128::from(self.now.gpu_ready);
            self.gpu_taken_ready += length * u128::from(self.now.gpu_taken_ready);
            self.cpu_ready += length * u128::from(self.spec.shape.cpu_capacity().get());
            self.cpu_taken_ready += length * u128::from(self.now.cpu_taken);
        }
    }

    /// Resets the integrals, because the warm-up has ended.
    pub(super) fn forget(&mut self) {
        (self.ready_ns, self.there_ns, self.placed) = (0, 0, 0);
        (self.gpu_ready, self.cpu_ready, self.gpu_taken_ready, self.cpu_taken_ready) = (0, 0, 0, 0);
        (self.gpu_taken, self.cpu_taken_total) = (0, 0);
        (self.there_emitted, self.cpu_emitted) = (0, 0);
    }

    /// The free capacity of the node. A GPU that is not usable has no free capacity.
    pub(super) fn free(&self) -> Free {
        let whole = u32::from(u16::try_from(GpuShare::WHOLE.get()).expect("a thousand"));
        let left = |index: usize| match self.is_ready() && self.gpus[index].state.is_usable() {
            true => whole - u32::try_from(self.gpus[index].part).expect("at most the whole"),
            false => 0,
        };
        Free { cpu: self.cpu_free(), gpus: (0..self.gpus.len()).map(left).collect() }
    }

    pub(super) fn set_state(&mut self, at: SimTime, state: NodeState) {
        self.settle(at);
        self.state = state;
        self.count();
    }

    pub(super) fn set_gpu_state(&mut self, at: SimTime, index: u16, state: GpuState) {
        self.settle(at);
        self.gpus[usize::from(index)].state = state;
        self.count();
    }

    pub(super) fn take(&mut self, at: SimTime, claim: &NodeClaim) {
        self.settle(at);
        self.cpu_taken = self.cpu_taken + claim.cpu;
        self.ram_taken = self.ram_taken + claim.ram;
        for part in &claim.gpus {
            let gpu = &mut self.gpus[usize::from(part.index)];
            gpu.share = gpu.share + part.share;
            gpu.memory = gpu.memory + part.memory;
            gpu.holders += 1;
            self.count_again(usize::from(part.index));
        }
        self.placed += 1;
        self.now.cpu_taken = self.cpu_taken.get();
    }

    /// Removes a claim. Panics if a total would fall below zero, because then the log releases something that was never
    /// taken.
    pub(super) fn release(&mut self, at: SimTime, claim: &NodeClaim) {
        self.settle(at);
        self.cpu_taken = self.cpu_taken - claim.cpu;
        self.ram_taken = self.ram_taken - claim.ram;
        for part in &claim.gpus {
            let gpu = &mut self.gpus[usize::from(part.index)];
            gpu.share = gpu.share - part.share;
            gpu.memory = gpu.memory - part.memory;
            gpu.holders -= 1;
            self.count_again(usize::from(part.index));
        }
        self.now.cpu_taken = self.cpu_taken.get();
    }

    /// Recomputes the totals over the node's GPUs from scratch.
    fn count(&mut self) {
        self.now = Rates { cpu_taken: self.cpu_taken.get(), ..Rates::default() };
        (self.whole, self.partial) = (0, 0);
        for gpu in &self.gpus {
            self.now.gpu_taken += gpu.part;
            if gpu.state.is_usable() && self.is_ready() {
                self.now.gpu_ready += WHOLE;
                self.now.gpu_taken_ready += gpu.part;
            }
            if gpu.state.is_usable() {
                self.whole += u32::from(gpu.part == 0);
                self.partial += u32::from(is_partial(gpu.part));
            }
        }
    }

    /// Updates the totals after the taken part of one GPU has changed.
    fn count_again(&mut self, index: usize) {
        let after = self.gpu_part(index);
        let (is_ready, gpu) = (self.is_ready(), &mut self.gpus[index]);
        let before = std::mem::replace(&mut gpu.part, after);
        self.now.gpu_taken = self.now.gpu_taken - before + after;
        if gpu.state.is_usable() {
            self.whole = self.whole - u32::from(before == 0) + u32::from(after == 0);
            self.partial = self.partial - u32::from(is_partial(before)) + u32::from(is_partial(after));
            if is_ready {
                self.now.gpu_taken_ready = self.now.gpu_taken_ready - before + after;
            }
        }
    }

    /// The number of wholly free GPUs. `None` if a GPU is free only in part.
    pub(super) fn whole_gpus_free(&self) -> Option<u32> {
        match self.is_ready() {
            true => (self.partial == 0).then_some(self.whole),
            false => Some(0),
        }
    }

    pub(super) fn cpu_free(&self) -> MilliCpu {
        self.spec.shape.cpu_capacity().saturating_sub(self.cpu_taken)
    }

    pub(super) fn ram_free(&self) -> Bytes {
        self.spec.shape.ram_capacity().saturating_sub(self.ram_taken)
    }

    /// The number of tasks for which the node's GPUs have room, up to `most`. If `empty` is true, counts as if no GPU
    /// were taken.
    ///
    /// Each task needs several different GPUs. So this is the largest number n such that the GPUs together have enough
    /// places for n tasks if each GPU offers at most n of its places.
    pub(super) fn gpu_room(&self, asked: &GpuDemand, empty: bool, most: u64) -> u64 {
        let shape = &self.spec.shape;
        let places = |index: usize| {
            let (gpu, kind) = (&self.gpus[index], &shape.gpus[index]);
            if !is_of_type(asked, kind) || !is_large_enough(asked, kind) || !gpu.state.is_usable() {
                return 0;
            }
            let (share, memory) = if empty { (GpuShare::ZERO, Bytes::ZERO) } else { (gpu.share, gpu.memory) };
            let capacity = shape.gpu_memory_capacity(index);
            let (share, free) = (GpuShare::WHOLE.saturating_sub(share), capacity.saturating_sub(memory));
            match asked.take {
                GpuTake::Whole => u64::from(empty || gpu.holders == 0),
                GpuTake::Share(part) => {
                    let by_share = share.get().checked_div(part.get()).map_or(u64::MAX, u64::from);
                    by_share.min(free.get().checked_div(part.of(capacity).get()).unwrap_or(u64::MAX))
                }
                GpuTake::Memory(part) if share > GpuShare::ZERO => {
                    free.get().checked_div(part.get()).unwrap_or(u64::MAX)
                }
                GpuTake::Memory(_) => 0,
            }
        };
        let places = (0..shape.gpus_without_devices()).map(places).filter(|places| *places > 0);
        let places: SmallVec<[u64; 16]> = places.collect();
        let offered = |tasks: u64| places.iter().map(|places| u128::from((*places).min(tasks))).sum::<u128>();
        let is_enough = |tasks: u64| offered(tasks) >= u128::from(tasks) * u128::from(asked.count);
        let at_most = offered(most) / u128::from(asked.count.max(1));
        let (mut low, mut high) = (0, most.min(u64::try_from(at_most).unwrap_or(u64::MAX)));
        // Whole GPUs have one place each, so they always have room for this many.
        if is_enough(high) {
            return high;
        }
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if is_enough(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// The taken part of a GPU in thousandths, at most the whole GPU. It is the larger of the taken share and the taken
    /// memory, because the rest of one is of little use without the other.
    fn gpu_part(&self, index: usize) -> u64 {
        let gpu = &self.gpus[index];
        if gpu.share >= GpuShare::WHOLE {
            return WHOLE;
        }
        let memory = u128::from(gpu.memory.get()) * 1000;
        let capacity = u128::from(self.spec.shape.gpu_memory_capacity(index).get()).max(1);
        let by_memory = u64::try_from(memory / capacity).unwrap_or(u64::MAX);
        by_memory.max(u64::from(gpu.share.get())).min(WHOLE)
    }

    /// Whether no claim takes anything of the node.
    pub fn is_idle(&self) -> bool {
        let idle = |gpu: &GpuAccount| gpu.holders == 0;
        self.cpu_taken == MilliCpu::ZERO && self.ram_taken == Bytes::ZERO && self.gpus.iter().all(idle)
    }

    pub fn gpu_count(&self) -> usize {
        self.gpus.len()
    }
}

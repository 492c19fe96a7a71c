//! Compares the event queue with a binary heap and with the engine of `simcore`, using the hold model. In this model
//! the earliest event is taken and added again with an exponential delay, so the number of pending events is constant.
//!
//! With two pending events this is a ping-pong: each event creates the next one of its pair.
//!
//! `cargo bench --bench queue` measures all cases; `cargo bench --bench queue -- 100000 ties` measures only the cases
//! with these words. The three structures run alternately, one round each, so that other load on the machine affects
//! all of them alike. Delays are drawn beforehand. The benchmark computes a sum over the order of the events. The heap
//! must give the same sum as the queue. The engine must give the same sum too, unless its clock, which counts seconds
//! in a double, cannot distinguish the instants. The results are in `benches/README.md`.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use dryrack_engine::{Due, EventQueue};
use dryrack_event::Lifecycle;
use dryrack_ids::{AttemptId, JobId};
use dryrack_rng::Stream;
use dryrack_units::{SimDuration, SimTime};
use serde::Serialize;

const PENDING: [u32; 4] = [2, 1_000, 100_000, 1_000_000];
const ROUNDS: usize = 5;
const EVENTS_OF_A_ROUND: u64 = 1_000_000;
const MEAN: SimDuration = SimDuration::from_secs(100);
/// The number of delays that are drawn; a power of two, small enough to stay in a cache.
const DRAWS: usize = 8192;

/// The delays of the events, in the order in which events are added. All three structures get the same delays.
struct Delays {
    nanos: Vec<SimDuration>,
    seconds: Vec<f64>,
}

impl Delays {
    fn new(ties: bool) -> Delays {
        let mut draws = Stream::new(1, "hold model", 0);
        let tenth = MEAN.as_nanos() / 10;
        let draw = |_| match draws.exponential(MEAN) {
            delay if ties => SimDuration::from_nanos((delay.as_nanos() + tenth / 2) / tenth * tenth),
            delay => delay,
        };
        let nanos: Vec<SimDuration> = (0..DRAWS).map(draw).collect();
        let seconds = nanos.iter().map(|delay| delay.as_secs_f64()).collect();
        Delays { nanos, seconds }
    }
}

/// The number of events added so far, and a hash of the order in which events were taken.
#[derive(Clone, Copy, Default)]
struct Count {
    added: usize,
    order: u64,
}

impl Count {
    fn next_draw(&mut self) -> usize {
        self.added += 1;
        self.added % DRAWS
    }

    fn come(&mut self, due: Due) {
        let Due::Fact { epoch, .. } = due else { panic!("only facts are added") };
        self.order = (self.order ^ u64::from(epoch)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// An event with this number, stored where `Count::come` reads it.
fn event(number: u32) -> Due {
    let attempt = AttemptId { job: JobId::new(number as usize), replica: 0, number: 1 };
    Due::Fact { attempt, epoch: number, fact: Lifecycle::Started }
}

trait Hold {
    /// Takes this many events, and adds each of them again with a new delay.
    fn advance(&mut self, events: u64);
    fn order(&self) -> u64;
}

struct Radix<'a> {
    delays: &'a Delays,
    count: Count,
    queue: EventQueue<Due>,
    now: SimTime,
    /// The events of the current instant, and how many of them have been taken.
    instant: Vec<Due>,
    come: usize,
}

impl<'a> Radix<'a> {
    fn new(delays: &'a Delays, pending: u32) -> Radix<'a> {
        let (mut queue, mut count) = (EventQueue::default(), Count::default());
        for number in 0..pending {
            queue.push(SimTime::ZERO.saturating_add(delays.nanos[count.next_draw()]), event(number));
        }
        Radix { delays, count, queue, now: SimTime::ZERO, instant: Vec::new(), come: 0 }
    }
}

impl Hold for Radix<'_> {
    #[inline(never)]
    fn advance(&mut self, mut events: u64) {
        while events > 0 {
            if self.come == self.instant.len() {
                self.instant.clear();
                self.come = 0;
                self.now = self.queue.take_instant(&mut self.instant).expect("as many are pending all the time");
            }
            let last = self.instant.len().min(self.come.saturating_add(events as usize));
            for due in &self.instant[self.come..last] {
                self.count.come(*due);
                let delay = self.delays.nanos[self.count.next_draw()];
                self.queue.push(self.now.saturating_add(delay), *due);
            }
            events -= (last - self.come) as u64;
            self.come = last;
        }
    }

    fn order(&self) -> u64 {
        self.count.order
    }
}

struct HeapItem {
    at: SimTime,
    sequence: u64,
    due: Due,
}

impl Ord for HeapItem {
    fn cmp(&self, other: &HeapItem) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for HeapItem {
    fn partial_cmp(&self, other: &HeapItem) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for HeapItem {
    fn eq(&self, other: &HeapItem) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for HeapItem {}

struct Heap<'a> {
    delays: &'a Delays,
    count: Count,
    heap: BinaryHeap<Reverse<HeapItem>>,
}

impl<'a> Heap<'a> {
    fn new(delays: &'a Delays, pending: u32) -> Heap<'a> {
        let mut hold = Heap { delays, count: Count::default(), heap: BinaryHeap::new() };
        (0..pending).for_each(|number| hold.push(SimTime::ZERO, event(number)));
        hold
    }

    fn push(&mut self, now: SimTime, due: Due) {
        let at = now.saturating_add(self.delays.nanos[self.count.next_draw()]);
        self.heap.push(Reverse(HeapItem { at, sequence: self.count.added as u64, due }));
    }
}

impl Hold for Heap<'_> {
    #[inline(never)]
    fn advance(&mut self, events: u64) {
        for _ in 0..events {
            let Reverse(HeapItem { at, due, .. }) = self.heap.pop().expect("as many are pending all the time");
            self.count.come(due);
            self.push(at, due);
        }
    }

    fn order(&self) -> u64 {
        self.count.order
    }
}

/// The payload of an event. The engine requires that it can be serialized, but only its log would serialize it, and the
/// log is off.
#[derive(Clone, Serialize)]
struct Payload {
    #[serde(skip, default)]
    due: Option<Due>,
}

struct Component {
    context: simcore::SimulationContext,
    seconds: Vec<f64>,
    count: Count,
}

impl Component {
    fn emit(&mut self, payload: Payload) {
        let delay = self.seconds[self.count.next_draw()];
        self.context.emit_self(payload, delay);
    }
}

impl simcore::EventHandler for Component {
    fn on(&mut self, event: simcore::Event) {
        let payload = simcore::Event::downcast::<Payload>(event).data;
        self.count.come(payload.due.expect("every event has its payload"));
        self.emit(payload);
    }
}

struct Engine {
    simulation: simcore::Simulation,
    component: Rc<RefCell<Component>>,
}

impl Engine {
    fn new(delays: &Delays, pending: u32) -> Engine {
        let mut simulation = simcore::Simulation::new(1);
        let context = simulation.create_context("hold");
        let mut component = Component { context, seconds: delays.seconds.clone(), count: Count::default() };
        (0..pending).for_each(|number| component.emit(Payload { due: Some(event(number)) }));
        let component = Rc::new(RefCell::new(component));
        simulation.add_handler("hold", component.clone());
        Engine { simulation, component }
    }
}

impl Hold for Engine {
    #[inline(never)]
    fn advance(&mut self, events: u64) {
        self.simulation.steps(events);
    }

    fn order(&self) -> u64 {
        self.component.borrow().count.order
    }
}

#[expect(clippy::disallowed_methods, reason = "what is measured is how long it takes")]
fn wall_of(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Millions of events per second: the median of the rounds, the lowest and the highest value.
struct Rate {
    median: f64,
    least: f64,
    most: f64,
}

fn rate_of(mut walls: Vec<Duration>) -> Rate {
    walls.sort_unstable();
    let rate = |wall: Duration| EVENTS_OF_A_ROUND as f64 / wall.as_secs_f64() / 1e6;
    Rate { median: rate(walls[walls.len() / 2]), least: rate(walls[walls.len() - 1]), most: rate(walls[0]) }
}

/// Prints a row for each structure. Returns false if the queue and the heap differ.
fn measure(pending: u32, ties: bool) -> bool {
    let delays = Delays::new(ties);
    let mut heap = Heap::new(&delays, pending);
    let mut radix = Radix::new(&delays, pending);
    let mut engine = Engine::new(&delays, pending);
    let mut holds: [(&str, &mut dyn Hold); 3] =
        [("BinaryHeap", &mut heap), ("EventQueue", &mut radix), ("simcore", &mut engine)];
    // The first round warms up and is not measured. It takes as many events as are pending.
    holds.iter_mut().for_each(|(_, hold)| hold.advance(u64::from(pending)));
    let mut walls = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for ((_, hold), walls) in holds.iter_mut().zip(&mut walls) {
            walls.push(wall_of(|| hold.advance(EVENTS_OF_A_ROUND)));
        }
    }
    let rates = walls.map(rate_of);
    let orders = holds.each_ref().map(|(_, hold)| hold.order());
    for (index, (name, _)) in holds.iter().enumerate() {
        let Rate { median, least, most } = rates[index];
        let ratio = median / rates[0].median;
        let order = if orders[index] == orders[0] { "same" } else { "another" };
        let ties = if ties { "ties" } else { "none" };
        println!(
            "| {pending:>9} | {ties} | {name:<10} | {median:>6.2} | {least:>6.2}..{most:<6.2} | {ratio:>5.2} | {order:<7} |"
        );
    }
    orders[0] == orders[1]
}

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    println!("| pending   | ties | structure  |  M/s   | least..most    | ratio | order   |");
    println!("| --------: | ---- | ---------- | -----: | -------------: | ----: | ------- |");
    let mut agree = true;
    for ties in [false, true] {
        for pending in PENDING {
            let words = [pending.to_string(), if ties { "ties" } else { "none" }.to_owned()];
            if asked.iter().all(|asked| words.contains(asked)) {
                agree &= measure(pending, ties);
            }
        }
    }
    if agree {
        return ExitCode::SUCCESS;
    }
    eprintln!("the queue and the heap do not give events in the same order");
    ExitCode::FAILURE
}

//! Compares a plain evaluation of the utilization policy's definition, over all samples, with the state machine, which
//! keeps only a ring of samples. The random series have gaps, unreadable GPUs, and samples that are out of order,
//! repeated, from the future or from before the start. The rule of dstack is evaluated in the same way, at every check
//! over all samples in its window.
//!
//! The plain evaluation keeps and sorts every sample, and walks all of them at each step. It shares only the
//! definition's types with the state machine.

use std::collections::BTreeSet;

use dryrack_policy::{Sample, UtilizationMonitor, ring_samples};
use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{
    AtMinimum, Coverage, Gaps, IdleGpus, PolicyMode, SampleFault, UtilizationPolicy, UtilizationRule,
};

trials! {
    Nothing: [
        the_machine_agrees_with_its_definition_on_random_series,
        it_is_neither_early_nor_late_at_any_interval_up_to_the_window,
    ]
    Time: [
        slow_the_machine_agrees_with_its_definition_on_100_000_random_series,
    ]
}

/// A sample, and when it arrived.
struct Heard {
    now: u64,
    at: u64,
    readings: Vec<Option<Permille>>,
    memory: usize,
}

/// Converts seconds: the times of this test are whole.
fn time(secs: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs(secs)
}

struct Case {
    policy: UtilizationPolicy,
    gpus: usize,
    start: u64,
    heard: Vec<Heard>,
}

fn secs(length: SimDuration) -> u64 {
    length.as_nanos() / 1_000_000_000
}

fn draw_policy(draws: &mut Stream, rule: UtilizationRule) -> UtilizationPolicy {
    let interval = draws.between(1, 12);
    let window = interval * draws.between(1, 8) + draws.between(0, interval);
    UtilizationPolicy {
        rule,
        mode: PolicyMode::Observe,
        min_gpu_utilization: Permille::new(*draws.pick(&[0, 10, 500, 500, 500, 1000])),
        time_window: SimDuration::from_secs(window.max(1)),
        gpus: *draws.pick(&[IdleGpus::Any, IdleGpus::All]),
        at_minimum: *draws.pick(&[AtMinimum::Busy, AtMinimum::Idle]),
        interval: SimDuration::from_secs(interval),
        longest_gap: SimDuration::from_secs(draws.between(1, 3 * interval)),
        gaps: *draws.pick(&[Gaps::Void, Gaps::Void, Gaps::Bridge]),
        grace: SimDuration::from_secs(*draws.pick(&[0, 0, 0, 20])),
    }
}

fn draw_case(seed: u64, rule: UtilizationRule) -> Case {
    let draws = &mut Stream::new(seed, "policy oracle", 0);
    let policy = draw_policy(draws, rule);
    let gpus = draws.between(1, 3) as usize;
    let start = draws.between(0, 30);
    let (interval, busy) = (secs(policy.interval), draws.between(0, 250));
    let odd = *draws.pick(&[0, 0, 60, 200]);
    let (mut heard, mut tick) = (Vec::new(), start);
    for _ in 0..draws.between(5, 60) {
        tick += if draws.chance(odd / 2) { draws.between(0, 4 * interval) } else { interval };
        let mut readings: Vec<Option<Permille>> = (0..gpus)
            .map(|_| {
                let level = if draws.chance(busy) { 500 + draws.between(0, 500) } else { draws.between(0, 501) };
                (!draws.chance(odd / 2)).then(|| Permille::new(level as u32))
            })
            .collect();
        let mut memory = readings.len();
        if draws.chance(odd / 6) {
            readings.truncate(draws.between(0, gpus as u64) as usize);
            memory = if draws.chance(500) { readings.len() } else { memory };
        }
        let late = if draws.chance(odd) { draws.between(0, 6 * interval) } else { 0 };
        let ahead = if draws.chance(odd / 4) { draws.between(0, 4 * interval) } else { 0 };
        let behind = if draws.chance(odd / 4) { draws.between(0, tick) } else { 0 };
        let at = tick + ahead - behind.min(tick);
        heard.push(Heard { now: tick + late, at, readings: readings.clone(), memory });
        if draws.chance(odd / 4) {
            heard.push(Heard { now: tick + late + draws.between(0, interval), at, readings, memory });
        }
    }
    heard.sort_by_key(|heard| heard.now);
    Case { policy, gpus, start, heard }
}

/// A plain evaluation of the definition.
struct Plain<'c> {
    case: &'c Case,
    /// Every accepted sample, by its time.
    taken: Vec<&'c Heard>,
    /// The times of the samples that the ring has room for.
    kept: BTreeSet<u64>,
    has_forgotten: bool,
    /// For each GPU, the end of the last window that fired.
    fired: Vec<Option<u64>>,
}

impl<'c> Plain<'c> {
    fn new(case: &'c Case) -> Plain<'c> {
        Plain { case, taken: Vec::new(), kept: BTreeSet::new(), has_forgotten: false, fired: vec![None; case.gpus] }
    }

    /// Takes a sample, or returns its fault.
    fn take(&mut self, heard: &'c Heard) -> Result<(), SampleFault> {
        let policy = &self.case.policy;
        if heard.readings.len() != self.case.gpus && policy.rule == UtilizationRule::Covered {
            return Err(SampleFault::GpuCount);
        }
        if heard.at < self.case.start {
            return Err(SampleFault::BeforeStart);
        }
        if heard.at > heard.now + secs(policy.longest_gap) {
            return Err(SampleFault::Future);
        }
        if self.kept.contains(&heard.at) {
            return Err(SampleFault::Duplicate);
        }
        let room = ring_samples(policy.time_window, policy.interval) as usize;
        let is_oldest = self.kept.first().is_some_and(|oldest| heard.at < *oldest);
        if is_oldest && (self.has_forgotten || self.kept.len() == room) {
            return Err(SampleFault::TooOld);
        }
        if self.kept.len() == room {
            self.kept.pop_first();
            self.has_forgotten = true;
        }
        self.kept.insert(heard.at);
        self.taken.push(heard);
        self.taken.sort_by_key(|sample| sample.at);
        Ok(())
    }

    fn is_idle(&self, reading: Permille) -> bool {
        let minimum = self.case.policy.min_gpu_utilization;
        match self.case.policy.at_minimum {
            AtMinimum::Busy => reading < minimum,
            AtMinimum::Idle => reading <= minimum,
        }
    }

    /// The longest series of readings of this GPU that ends with the newest one, in which all are idle and none is too
    /// far from the next.
    fn spell(&self, gpu: usize) -> Option<(u64, u64, u32)> {
        let from = self.case.start + secs(self.case.policy.grace);
        let readings: Vec<(u64, Permille)> = (self.taken.iter())
            .filter(|sample| sample.at >= from)
            .filter_map(|sample| Some((sample.at, sample.readings[gpu]?)))
            .collect();
        let gap = secs(self.case.policy.longest_gap);
        let bridges = self.case.policy.gaps == Gaps::Bridge;
        (0..readings.len())
            .map(|first| &readings[first..])
            .find(|row| {
                let idle = row.iter().all(|(_, reading)| self.is_idle(*reading));
                idle && (bridges || row.windows(2).all(|pair| pair[1].0 - pair[0].0 <= gap))
            })
            .map(|row| (row[0].0, row[row.len() - 1].0, row.len() as u32))
    }

    /// All firings at this time, each once.
    fn judge(&mut self) -> Vec<Coverage> {
        let window = secs(self.case.policy.time_window);
        let spells: Vec<Option<(u64, u64, u32)>> = (0..self.case.gpus).map(|gpu| self.spell(gpu)).collect();
        let covers = |first: u64, last: u64| last >= first && last - first >= window;
        let coverage = |gpus: Vec<u16>, (first, last, samples): (u64, u64, u32)| Coverage {
            gpus: gpus.into(),
            first: time(first),
            last: time(last),
            samples,
        };
        let mut said = Vec::new();
        if self.case.policy.gpus == IdleGpus::All {
            let all: Option<Vec<_>> = spells.into_iter().collect();
            let Some(all) = all else { return said };
            let first = all.iter().map(|spell| spell.0).max().expect("at least one GPU");
            let last = all.iter().map(|spell| spell.1).min().expect("at least one GPU");
            let fewest = all.iter().map(|spell| spell.2).min().expect("at least one GPU");
            if covers(first, last) && self.fired[0].is_none_or(|until| until < first) {
                self.fired.fill(Some(last));
                said.push(coverage((0..self.case.gpus as u16).collect(), (first, last, fewest)));
            }
            return said;
        }
        for gpu in 0..self.case.gpus {
            let Some(spell) = spells[gpu].filter(|(first, last, _)| covers(*first, *last)) else { continue };
            if self.fired[gpu].is_some_and(|until| until >= spell.0) {
                continue;
            }
            let alike = |other: &Option<(u64, u64, u32)>| {
                other.is_some_and(|(first, last, _)| (first, last) == (spell.0, spell.1))
            };
            let gpus: Vec<u16> =
                (0..self.case.gpus as u16).filter(|other| alike(&spells[usize::from(*other)])).collect();
            for gpu in &gpus {
                self.fired[usize::from(*gpu)] = Some(spell.1);
            }
            said.push(coverage(gpus, spell));
        }
        said
    }
}

/// Compares one series; returns how often it fired.
fn hold_covered(seed: u64) -> usize {
    let case = draw_case(seed, UtilizationRule::Covered);
    let mut monitor = UtilizationMonitor::bind(case.policy, case.gpus as u16, time(case.start));
    let mut plain = Plain::new(&case);
    let mut fired = 0;
    for heard in case.heard.iter().filter(|heard| heard.now >= case.start) {
        let sample = Sample { at: time(heard.at), utilization: &heard.readings, memory_entries: heard.memory };
        let found = monitor.observe(time(heard.now), &sample);
        let found = found.filter(|fault| !matches!(fault, SampleFault::Disorder | SampleFault::Overflow));
        assert_eq!(found, plain.take(heard).err(), "seed {seed}, {} heard at {}", heard.at, heard.now);
        let mut said = Vec::new();
        while let Some(coverage) = monitor.fire(time(heard.now)) {
            said.push(coverage);
        }
        assert_eq!(said, plain.judge(), "seed {seed}, after {} heard at {}", heard.at, heard.now);
        assert_eq!(monitor.next(time(heard.now)), None, "seed {seed}: it has just fired");
        fired += said.len();
    }
    fired
}

/// Evaluates the rule of dstack at every check, over all samples of the window.
fn plain_dstack(case: &Case, (every, within): (u64, u64), until: u64) -> Option<u64> {
    let window = secs(case.policy.time_window);
    let mut plain = Plain::new(case);
    let mut heard = case.heard.iter().filter(|heard| heard.now >= case.start).peekable();
    let mut look = case.start;
    while look <= until {
        while let Some(sample) = heard.next_if(|heard| heard.now <= look) {
            // Rejected samples are ignored.
            let _named = plain.take(sample);
        }
        // Samples that the ring has dropped are not considered; the state machine reports this as a fault.
        let in_window: Vec<&&Heard> = (plain.taken.iter())
            .filter(|sample| sample.at + window >= look && plain.kept.contains(&sample.at))
            .collect();
        let counts = in_window.get(1..).unwrap_or(&[]);
        if let [first, ..] = counts {
            let is_well = |sample: &&&Heard| {
                let gpus = sample.readings.len();
                gpus == first.readings.len() && gpus == sample.memory && sample.readings.iter().all(Option::is_some)
            };
            let all_idle = |gpu: usize| {
                counts.iter().all(|sample| sample.readings[gpu].is_some_and(|reading| plain.is_idle(reading)))
            };
            let gpus = first.readings.len();
            if counts.iter().all(is_well) && first.at + window <= look + within {
                let fires = match case.policy.gpus {
                    IdleGpus::Any => (0..gpus).any(all_idle),
                    IdleGpus::All => gpus == case.gpus && (0..gpus).all(all_idle),
                };
                if fires {
                    return Some(look);
                }
            }
        }
        look += every;
    }
    None
}

/// Compares the first firing of one series.
fn hold_dstack(seed: u64) -> usize {
    let draws = &mut Stream::new(seed, "dstack oracle", 0);
    let (every, within) = (draws.between(1, 9), draws.between(0, 30));
    let rule = UtilizationRule::Dstack {
        looks_every: SimDuration::from_secs(every),
        first_within: SimDuration::from_secs(within),
    };
    let case = draw_case(seed, rule);
    let until = case.heard.last().map_or(0, |heard| heard.now) + 2 * secs(case.policy.time_window) + 20;
    let mut monitor = UtilizationMonitor::bind(case.policy, case.gpus as u16, time(case.start));
    let mut found = None;
    let mut now = time(case.start);
    for heard in case.heard.iter().filter(|heard| heard.now >= case.start) {
        found = monitor.next(now).filter(|at| *at < time(heard.now));
        if found.is_some() {
            break;
        }
        now = time(heard.now);
        let sample = Sample { at: time(heard.at), utilization: &heard.readings, memory_entries: heard.memory };
        monitor.observe(now, &sample);
    }
    let found = found.or_else(|| monitor.next(now)).filter(|at| *at <= time(until));
    let wanted = plain_dstack(&case, (every, within), until);
    assert_eq!(found, wanted.map(time), "seed {seed}: {:?}", case.policy);
    usize::from(found.is_some())
}

/// Compares this many series of each rule, and checks that enough of them fire and enough do not.
fn hold(series: u64) {
    let covered: usize = (0..series).map(|seed| usize::from(hold_covered(seed) > 0)).sum();
    let dstack: usize = (0..series).map(hold_dstack).sum();
    for (name, fired) in [("covered", covered), ("dstack", dstack)] {
        let part = fired as u64 * 100 / series;
        assert!((15..=85).contains(&part), "{part}% of the series of {name} fire: the draws show little");
    }
}

fn the_machine_agrees_with_its_definition_on_random_series() {
    hold(3_000);
}

fn slow_the_machine_agrees_with_its_definition_on_100_000_random_series() {
    hold(100_000);
}

/// A GPU that is idle from x on does not fire before a whole window of idle readings, and fires before x + window + 2d.
fn it_is_neither_early_nor_late_at_any_interval_up_to_the_window() {
    let window = 300;
    let mut checked = 0;
    for interval in 1..=window {
        for idle_from in [0, 1, interval, 2 * interval + 1, 1_000] {
            let policy = UtilizationPolicy {
                rule: UtilizationRule::Covered,
                mode: PolicyMode::Enforce,
                min_gpu_utilization: Permille::new(300),
                time_window: SimDuration::from_secs(window),
                gpus: IdleGpus::Any,
                at_minimum: AtMinimum::Busy,
                interval: SimDuration::from_secs(interval),
                longest_gap: SimDuration::from_secs(2 * interval),
                gaps: Gaps::Void,
                grace: SimDuration::ZERO,
            };
            let mut monitor = UtilizationMonitor::bind(policy, 1, time(0));
            let fires = (1..).map(|tick| tick * interval).take_while(|at| *at < 10_000).find(|at| {
                let level = if *at >= idle_from { 0 } else { 900 };
                let readings = [Some(Permille::new(level))];
                monitor.observe(time(*at), &Sample { at: time(*at), utilization: &readings, memory_entries: 1 });
                monitor.fire(time(*at)).is_some()
            });
            let fires = fires.unwrap_or_else(|| panic!("never, at {interval} s from {idle_from} s on"));
            assert!(fires >= idle_from + window, "early: {fires} s, at {interval} s from {idle_from} s on");
            assert!(fires < idle_from.max(1) + window + 2 * interval, "late: {fires} s, at {interval} s");
            checked += 1;
        }
    }
    assert_eq!(checked, 5 * window);
}

//! A month of the horizon that gives another result than the run with more load.
//!
//! Both are runs of the answer with a constant load. The run with more load has 10 % more, and a month any load. If less load
//! fails where more load does not, a reader would take one of them for an error.

use super::breaks::BreakResult;
use super::horizon::{Lasting, LastingUntil};
use super::summary::Row;
use dryrack_scenario::Horizon;
use dryrack_units::counted;

/// A sentence if the answer fails in a month with no more load than that of `found`, which it bears, or bears a month with at
/// least the load of `found`, with which it fails. `now` is the load of the scenario. `None` for a change of anything but
/// the load.
pub fn month_at_odds((horizon, now): (&Horizon, f64), lasting: &Lasting, found: &BreakResult) -> Option<String> {
    let tried = found.change.set.first().and_then(|set| load_of(set)).filter(|_| found.runs > 0)?;
    let load = |month: u32| load_of(&horizon.set(month, now));
    let month = match (found.keeps, &lasting.until) {
        (true, LastingUntil::Month { month, .. }) => Some(*month).filter(|month| load(*month) <= Some(tried)),
        (true, LastingUntil::End | LastingUntil::Unknown { .. }) => None,
        (false, _) => (0..=horizon.months)
            .take_while(|month| lasting.lasts(*month))
            .filter(|month| load(*month) >= Some(tried))
            .last(),
    }?;
    let then = lasting.months.get(month as usize)?;
    let is_same = load(month) == Some(tried);
    let name = if is_same { format!("{}, with this load", horizon.name(month)) } else { horizon.name_and_load(month) };
    let does = if found.keeps { "it does not" } else { "it meets everything" };
    let why = match (is_same, then.is_random) {
        (true, _) => "",
        (false, true) => WHY_RANDOM,
        (false, false) => WHY,
    };
    Some(format!("But in {name}, {does}{}.{why}", seeds(then)))
}

/// Why less load can be worse. A list of jobs is repeated in part, and arrivals come at other times.
const WHY: &str = " Each load submits other jobs, or the same jobs at other times, so at about these loads it is partly chance \
                   whether the constraints hold.";
const WHY_RANDOM: &str = " Each load submits other jobs, or the same jobs at other times, so at about these loads it is partly \
                          chance whether the constraints hold: use more seeds.";

/// With how many seeds a month meets all constraints; empty if there was one run.
fn seeds(then: &Row) -> String {
    match then.runs {
        1 => String::new(),
        runs => format!(": all constraints hold with {} of {}", then.kept, counted(runs, "seed")),
    }
}

/// The tenths of a percent of a setting such as `load=110.0%`.
fn load_of(set: &str) -> Option<u64> {
    let percent: f64 = set.strip_prefix("load=")?.strip_suffix('%')?.parse().ok()?;
    Some((percent * 10.0).round() as u64)
}

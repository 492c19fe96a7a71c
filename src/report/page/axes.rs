//! Ticks of axes: their positions and labels.

use super::chart::Axis;
use crate::plot::wait_place;
use dryrack_units::{SimDuration, SimTime, date};

/// Steps between ticks of a time axis, in seconds. Each has the length of the unit for its labels, and the unit's
/// letter.
const STEPS: [(u64, u64, &str); 21] = [
    (1, 1, "s"),
    (5, 1, "s"),
    (10, 1, "s"),
    (30, 1, "s"),
    (60, 60, "m"),
    (120, 60, "m"),
    (300, 60, "m"),
    (600, 60, "m"),
    (1800, 60, "m"),
    (3600, 3600, "h"),
    (7200, 3600, "h"),
    (14_400, 3600, "h"),
    (21_600, 3600, "h"),
    (43_200, 3600, "h"),
    (86_400, 86_400, "d"),
    (172_800, 86_400, "d"),
    (432_000, 86_400, "d"),
    (864_000, 86_400, "d"),
    (1_728_000, 86_400, "d"),
    (2_592_000, 86_400, "d"),
    (7_776_000, 86_400, "d"),
];
/// The largest number of steps on an axis. More would not fit.
const TICKS: u64 = 6;

/// An axis of time from zero to the end of a run.
pub fn of_time(label: &str, end: SimDuration) -> Axis {
    let nanos = end.as_nanos().max(1);
    let seconds = nanos.div_ceil(1_000_000_000);
    let long = seconds.div_ceil(TICKS * 86_400) * 86_400;
    let (step, unit, letter) =
        STEPS.into_iter().find(|(step, ..)| seconds / step <= TICKS).unwrap_or((long, 86_400, "d"));
    let count = nanos / (step * 1_000_000_000);
    let tick = |index: u64| {
        let place = (index * step) as f64 * 1e9 / nanos as f64;
        (place, format!("{}{letter}", index * step / unit))
    };
    let ticks = (0..=count).map(tick);
    Axis {
        label: label.to_string(),
        ticks: ticks.map(|(place, text)| (place, if text.starts_with('0') { "0".into() } else { text })).collect(),
    }
}

/// An axis of the time of a run: of dates if the run starts at a date, otherwise from zero.
pub fn of_run(end: SimDuration, starts_at: Option<SimTime>) -> Axis {
    match starts_at {
        Some(start) => of_dates(start, end),
        None => of_time("time", end),
    }
}

/// An axis of dates. Its ticks are at whole hours or days.
fn of_dates(start: SimTime, end: SimDuration) -> Axis {
    let nanos = end.as_nanos().max(1);
    let seconds = nanos.div_ceil(1_000_000_000);
    let long = seconds.div_ceil(TICKS * 86_400) * 86_400;
    let step = STEPS.into_iter().map(|(step, ..)| step).find(|step| seconds / step <= TICKS).unwrap_or(long);
    let start_seconds = start.as_nanos() / 1_000_000_000;
    // Steps of several days begin with the first midnight.
    let first = start_seconds.next_multiple_of(step.min(86_400));
    let tick = |at: u64| {
        let place = (at * 1_000_000_000).saturating_sub(start.as_nanos()) as f64 / nanos as f64;
        let text = date::text(SimTime::from_secs(at));
        let (day, time) = text.split_once(' ').unwrap_or((&text, ""));
        let text = match (at.is_multiple_of(86_400), step < 60) {
            (true, _) => day[5..].to_string(),
            (false, true) => time.to_string(),
            (false, false) => time[..5].to_string(),
        };
        (place, text)
    };
    let ticks = (first..=start_seconds + seconds).step_by(step as usize).map(tick);
    let ticks = ticks.filter(|(place, _)| *place <= 1.0).collect();
    Axis { label: format!("time, from {}", &date::text(start)[..16]), ticks }
}

/// The ticks below a strip that shows a run over time: those of the plots. The script draws the same ones.
pub fn strip_ticks(end: SimDuration, starts_at: Option<SimTime>) -> String {
    let tick = |(place, text): &(f64, String)| {
        // A label near an end of the strip stays within it.
        let moved = match *place {
            ..0.03 => ";transform:none",
            0.97.. => ";transform:translateX(-100%)",
            _ => "",
        };
        format!("<span style=\"left:{:.3}%{moved}\">{text}</span>", place * 100.0)
    };
    of_run(end, starts_at).ticks.iter().map(tick).collect()
}

/// An axis from zero to a round number of at least `most`. Also returns that number.
pub fn of_numbers(label: &str, most: f64) -> (Axis, f64) {
    with_step(label, most, round_step(most))
}

/// An axis of counts, without fractional ticks.
pub fn of_counts(label: &str, most: u64) -> (Axis, f64) {
    let (step, decimals) = round_step(most.max(1) as f64);
    with_step(label, most.max(1) as f64, if step < 1.0 { (1.0, 0) } else { (step, decimals) })
}

fn with_step(label: &str, most: f64, (step, decimals): (f64, usize)) -> (Axis, f64) {
    let count = libm::ceil(most / step - 1e-9).max(1.0);
    let top = count * step;
    let tick = |index: usize| {
        let value = index as f64 * step;
        (value / top, short(value, decimals))
    };
    (Axis { label: label.to_string(), ticks: (0..=count as usize).map(tick).collect() }, top)
}

/// A step of 1, 2 or 5 times a power of ten, such that at most five steps reach `most`. Also returns the number of
/// decimals for its labels.
fn round_step(most: f64) -> (f64, usize) {
    if !(most > 0.0 && most.is_finite()) {
        return (1.0, 0);
    }
    let mut power = -6i32;
    loop {
        for times in [1.0, 2.0, 5.0] {
            let step = if power < 0 { times / ten(-power) } else { times * ten(power) };
            if most / step <= 5.0 + 1e-9 {
                return (step, usize::try_from(-power).unwrap_or(0));
            }
        }
        power += 1;
    }
}

fn ten(power: i32) -> f64 {
    (0..power).fold(1.0, |ten, _| ten * 10.0)
}

/// Formats a number with about four characters: `1500` becomes `1.5k`.
fn short(value: f64, decimals: usize) -> String {
    let with = |value: f64, letter: &str| {
        let text = format!("{value:.1}");
        format!("{}{letter}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match value {
        value if value >= 10e9 => format!("{value:.0e}"),
        value if value >= 1e6 => with(value / 1e6, "M"),
        value if value >= 1e4 => with(value / 1e3, "k"),
        value => format!("{value:.decimals$}"),
    }
}

/// An axis of percentages up to 100%, and its first percentage. It begins above 0% if no value is as small as that, so
/// that curves near 100% can be told apart.
pub fn of_parts(label: &str, least: f64) -> (Axis, f64) {
    let (from, step) = match least {
        0.9.. => (90, 2),
        0.75.. => (75, 5),
        0.5.. => (50, 10),
        _ => (0, 25),
    };
    let tick = |percent: u32| (f64::from(percent - from) / f64::from(100 - from), format!("{percent}%"));
    let ticks = (from..=100).step_by(step).map(tick).collect();
    (Axis { label: label.to_string(), ticks }, f64::from(from))
}

/// The place of a part on an axis that begins with this percentage.
pub fn part_place(part: f64, from: f64) -> f64 {
    (part * 100.0 - from) / (100.0 - from)
}

/// A sentence about an axis of percentages that does not begin at 0%.
pub fn from_note(from: f64) -> String {
    if from > 0.0 { format!(" The axis begins at {from}%.") } else { String::new() }
}

/// An axis of waits up to a tick of at least `longest` seconds. Also returns the position of its end.
pub fn of_waits(label: &str, longest: f64) -> (Axis, f64) {
    const MARKS: [(u64, &str); 11] = [
        (0, "0"),
        (1, "1s"),
        (10, "10s"),
        (60, "1m"),
        (600, "10m"),
        (3600, "1h"),
        (21_600, "6h"),
        (86_400, "1d"),
        (604_800, "1w"),
        (2_592_000, "30d"),
        (31_536_000, "1y"),
    ];
    /// On a longer axis there is no room for a tick at one second.
    const SHORT: f64 = 3600.0;
    let last = MARKS.iter().map(|(seconds, _)| *seconds as f64).find(|mark| *mark >= longest.max(60.0));
    let end = wait_place(last.unwrap_or(longest));
    let known = MARKS.iter().filter(|(seconds, _)| *seconds != 1 || last.is_some_and(|last| last <= SHORT));
    let ticks = known.map(|(seconds, text)| (wait_place(*seconds as f64) / end, (*text).to_string()));
    (Axis { label: format!("{label} (log scale)"), ticks: ticks.filter(|(place, _)| *place <= 1.0).collect() }, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_dates_are_at_midnight_or_whole_hours() {
        let texts = |axis: &Axis| axis.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>().join(" ");
        let start = date::parse("2026-11-03 22:30:00").expect("a date");
        let of = |hours: u64| of_run(SimDuration::from_secs(hours * 3600), Some(start));
        assert_eq!(texts(&of(6)), "23:00 11-04 01:00 02:00 03:00 04:00");
        assert_eq!(texts(&of(24 * 12)), "11-04 11-06 11-08 11-10 11-12 11-14");
        assert_eq!(of(6).label, "time, from 2026-11-03 22:30");
        // The first tick is half an hour after the start, of six.
        assert!((of(6).ticks[0].0 - 0.5 / 6.0).abs() < 1e-9);
        assert_eq!(texts(&of_run(SimDuration::from_secs(3600), None)), "0 10m 20m 30m 40m 50m 60m");
    }

    #[test]
    fn ticks_are_round_and_few() {
        let texts = |axis: &Axis| axis.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>().join(" ");
        for (seconds, wanted) in [
            (1, "0 1s"),
            (95, "0 30s 60s 90s"),
            (3600, "0 10m 20m 30m 40m 50m 60m"),
            (86_400, "0 4h 8h 12h 16h 20h 24h"),
            (8_000_000, "0 20d 40d 60d 80d"),
            (100_000_000, "0 193d 386d 579d 772d 965d"),
        ] {
            assert_eq!(texts(&of_time("", SimDuration::from_secs(seconds))), wanted);
        }
        for (most, wanted, top) in [
            (0.0, "0 1", 1.0),
            (0.03, "0.00 0.01 0.02 0.03", 0.03),
            (7.0, "0 2 4 6 8", 8.0),
            (2004.0, "0 500 1000 1500 2000 2500", 2500.0),
            (48_000.0, "0 10k 20k 30k 40k 50k", 50_000.0),
        ] {
            let (axis, found) = of_numbers("", most);
            assert_eq!(
                (texts(&axis), libm::round(found * 100.0)),
                (wanted.to_string(), libm::round(top * 100.0)),
                "{most}"
            );
        }
    }
    #[test]
    fn an_axis_of_waits_ends_with_a_tick() {
        let texts =
            |longest| of_waits("", longest).0.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(0.0), "0 1s 10s 1m");
        assert_eq!(texts(1380.0), "0 1s 10s 1m 10m 1h");
        assert_eq!(texts(86_400.0), "0 10s 1m 10m 1h 6h 1d");
        assert_eq!(texts(86_401.0), "0 10s 1m 10m 1h 6h 1d 1w");
        assert_eq!(texts(40_000_000.0), "0 10s 1m 10m 1h 6h 1d 1w 30d 1y", "the longest has no tick of its own");
    }

    #[test]
    fn an_axis_of_parts_begins_below_all() {
        let texts =
            |least| of_parts("", least).0.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(0.2), "0% 25% 50% 75% 100%");
        assert_eq!(texts(0.81), "75% 80% 85% 90% 95% 100%");
        assert_eq!(texts(0.93), "90% 92% 94% 96% 98% 100%");
        assert!((part_place(0.95, 90.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn labels_of_a_strip_stay_within_it() {
        assert_eq!(
            strip_ticks(SimDuration::from_secs(2), None),
            "<span style=\"left:0.000%;transform:none\">0</span><span style=\"left:50.000%\">1s</span>\
             <span style=\"left:100.000%;transform:translateX(-100%)\">2s</span>"
        );
    }
}

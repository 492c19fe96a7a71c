//! Two clocks that are read together: a monotonic clock and the wall clock.
//!
//! Every duration is measured on the monotonic clock. The wall clock only gives the date of an event. It may be set at
//! any time. [`Clock::jump`] reports this, and nothing else changes.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dryrack_units::{SimDuration, SimTime};

/// The source of wall time: the machine, or a test that sets it.
pub type WallSource = Box<dyn Fn() -> Wall + Send + Sync>;

/// Nanoseconds since the first instant of 1970, UTC; negative before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wall(pub i64);

/// The time of a reading, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time since the clock was started. It never decreases.
    pub since_start: SimDuration,
    pub wall: Wall,
}

impl Stamp {
    /// The stamp rounded down to whole milliseconds after the start. This form is used in output and files, although
    /// the machine measures more precisely.
    pub fn in_millis(self) -> Stamp {
        const MILLI: u64 = 1_000_000;
        Stamp { since_start: SimDuration::from_nanos(self.since_start.as_nanos() / MILLI * MILLI), ..self }
    }

    /// The stamp as simulated time, in which zero is the start of the clock.
    pub fn at(self) -> SimTime {
        SimTime::from_nanos(self.since_start.as_nanos())
    }
}

pub struct Clock {
    start: Instant,
    wall_at_start: Wall,
    wall: WallSource,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Clock {
        Clock::with_wall(Box::new(machine_wall))
    }

    /// Starts a clock with this source of wall time.
    pub fn with_wall(wall: WallSource) -> Clock {
        Clock { start: instant(), wall_at_start: wall(), wall }
    }

    pub fn now(&self) -> Stamp {
        Stamp { since_start: since(self.start), wall: (self.wall)() }
    }

    /// How far the wall clock was set between two stamps, in nanoseconds; positive if it was set ahead.
    pub fn jump(&self, from: Stamp, to: Stamp) -> i64 {
        let walked = i128::from(to.since_start.as_nanos()) - i128::from(from.since_start.as_nanos());
        let shown = i128::from(to.wall.0) - i128::from(from.wall.0);
        i64::try_from(shown - walked).unwrap_or(if shown > walked { i64::MAX } else { i64::MIN })
    }

    pub fn wall_at_start(&self) -> Wall {
        self.wall_at_start
    }

    /// Waits until this long after the start. Returns at once if that time has passed.
    pub fn wait_until(&self, since_start: SimDuration) {
        let left = since_start.saturating_sub(since(self.start));
        if !left.is_zero() {
            pause(std_duration(left));
        }
    }
}

/// A time by which something must be done.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline this long from now. A length that the machine cannot represent becomes a century, which amounts to no
    /// deadline.
    pub fn within(length: Duration) -> Deadline {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
        Deadline(instant() + length.min(CENTURY))
    }

    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(instant())
    }

    pub fn has_passed(self) -> bool {
        self.left().is_zero()
    }
}

/// Waits for this long. No other code of this room sleeps.
pub fn pause(length: Duration) {
    #[expect(clippy::disallowed_methods, reason = "what is real takes real time")]
    std::thread::sleep(length);
}

pub fn std_duration(length: SimDuration) -> Duration {
    Duration::from_nanos(length.as_nanos())
}

/// The length as simulated time, limited to the largest value, about 584 years.
pub fn sim_duration(length: Duration) -> SimDuration {
    SimDuration::from_nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

fn instant() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    Instant::now()
}

fn since(start: Instant) -> SimDuration {
    sim_duration(instant().saturating_duration_since(start))
}

fn machine_wall() -> Wall {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    let now = SystemTime::now();
    let nanos = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
    match now.duration_since(UNIX_EPOCH) {
        Ok(after) => Wall(nanos(after)),
        Err(before) => Wall(-nanos(before.duration())),
    }
}

impl fmt::Display for Wall {
    /// Formats the date as in `2026-11-21T20:13:17.042Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let millis = nanos / 1_000_000;
        f.pad(&format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"))
    }
}

/// The date of a day in the Gregorian calendar. Days are counted from the first of January 1970.
fn civil(days: i64) -> (i64, u32, u32) {
    let is_leap = |year: i64| year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    // Handle whole cycles of 400 years first, to keep the loops below short.
    let (cycles, mut days) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let mut year = 1970 + 400 * cycles;
    while days >= if is_leap(year) { 366 } else { 365 } {
        days -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u32 + 1, days as u32 + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// Expected values from GNU `date -u -d @SECONDS`.
    #[test]
    fn an_instant_is_written_as_the_field_writes_it() {
        let rows = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_792_613_597_042_000_000, "2026-10-21T20:13:17.042Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
            (-1_000_000, "1969-12-31T23:59:59.999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (nanos, wanted) in rows {
            assert_eq!(Wall(nanos).to_string(), wanted);
        }
    }

    #[test]
    fn a_wall_clock_that_is_set_an_hour_back_is_seen_and_moves_nothing() {
        const HOUR: i64 = 3_600_000_000_000;
        let shown = Arc::new(AtomicI64::new(5 * HOUR));
        let clock = {
            let shown = Arc::clone(&shown);
            Clock::with_wall(Box::new(move || Wall(shown.load(Ordering::Relaxed))))
        };
        let before = clock.now();
        shown.store(4 * HOUR, Ordering::Relaxed);
        let after = clock.now();
        assert!(after.since_start >= before.since_start);
        let walked = (after.since_start - before.since_start).as_nanos() as i64;
        assert_eq!(clock.jump(before, after), -HOUR - walked);
        shown.store(6 * HOUR, Ordering::Relaxed);
        assert!(clock.jump(before, clock.now()) > HOUR / 2);
    }

    #[test]
    fn a_deadline_passes_and_stays_passed() {
        let deadline = Deadline::within(Duration::from_millis(20));
        assert!(!deadline.has_passed());
        pause(Duration::from_millis(25));
        assert!(deadline.has_passed());
        assert!(!Deadline::within(Duration::MAX).has_passed());
    }
}

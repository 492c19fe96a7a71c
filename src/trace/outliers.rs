//! Tasks that were submitted long before or long after all others.
//!
//! `sacct --starttime` prints the jobs that were in the system since then. One of them may have been submitted months
//! before. A run over such a list is mostly empty, and so are most of its days if they are resampled.

use dryrack_units::{SimDuration, SimTime, counted};

use super::census::SINCE_1970;

/// The largest part of all tasks that counts as few, as a divisor.
const FEW: usize = 20;
/// The shortest gap that separates tasks, as a divisor of the time from the first submission to the last. It has at least
/// a day.
const WIDE: u64 = 5;
const DAY: SimDuration = SimDuration::from_secs(86_400);

/// Few tasks that are separated from all others by a long gap in which nothing was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outliers {
    /// The number of these tasks, before and after the others, and that of all tasks.
    pub before: usize,
    pub after: usize,
    pub all: usize,
    /// The longest gap.
    pub gap: SimDuration,
    /// The first and the last submission of the others.
    pub first: SimTime,
    pub last: SimTime,
}

impl Outliers {
    /// Finds such tasks. The submissions must be in order.
    pub fn among(submits: &[SimTime]) -> Option<Outliers> {
        let all = submits.len();
        let (few, whole) = (all / FEW, submits.last()?.since(*submits.first()?));
        let wide = DAY.max(SimDuration::from_nanos(whole.as_nanos() / WIDE));
        let gap = |at: usize| submits[at].since(submits[at - 1]);
        let is_wide = |at: &usize| gap(*at) >= wide;
        let before = (1..=few).rev().find(is_wide).unwrap_or(0);
        let end = (all - few..all).find(is_wide).unwrap_or(all);
        let gap = [before, end].into_iter().filter(|at| (1..all).contains(at)).map(gap).max()?;
        Some(Outliers { before, after: all - end, all, gap, first: submits[before], last: submits[end - 1] })
    }

    /// The keys of `trace:` that leave these tasks out, such as `from: 2026-10-05`.
    pub fn keys(&self) -> String {
        let is_date = self.first >= SINCE_1970;
        let day = |at| dryrack_units::date::text(at).chars().take(10).collect::<String>();
        let from = match (self.before, is_date) {
            (0, _) => None,
            (_, true) => Some(format!("from: {}", day(self.first))),
            (_, false) => Some(format!("offset: {}s", self.first.as_nanos() / 1_000_000_000)),
        };
        let to = match (self.after, is_date) {
            (0, _) => None,
            (_, true) => Some(format!("to: {}", day(self.last))),
            (_, false) => Some(format!("limit: {}", self.all - self.before - self.after)),
        };
        from.into_iter().chain(to).collect::<Vec<_>>().join(", ")
    }

    /// A sentence such as `1 of 1216 jobs was submitted long before the others: 46d pass without a submission`.
    pub fn sentence(&self) -> String {
        let outliers = self.before + self.after;
        let when = match (self.before, self.after) {
            (_, 0) => "before",
            (0, _) => "after",
            _ => "before or after",
        };
        format!(
            "{outliers} of {} {} submitted long {when} the others: {} pass without a submission",
            counted(self.all, "job"),
            if outliers == 1 { "was" } else { "were" },
            SimDuration::from_secs(self.gap.as_nanos() / 3_600_000_000_000 * 3600)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 tasks, one an hour, from the start of day 50. A twentieth of them are two.
    fn list(others: &[u64]) -> Vec<SimTime> {
        let day = |day: u64| SimTime::from_secs(day * 86_400);
        let regular = (0..40).map(|hour| SimTime::from_secs(50 * 86_400 + hour * 3600));
        let mut submits: Vec<SimTime> = others.iter().map(|other| day(*other)).chain(regular).collect();
        submits.sort_unstable();
        submits
    }

    #[test]
    fn few_tasks_beyond_a_long_gap_are_outliers() {
        let rows: [(&[u64], Option<&str>); 6] = [
            (&[], None),
            (&[4], Some("offset: 4320000s")),
            (&[4, 20], Some("offset: 4320000s")),
            (&[90], Some("limit: 40")),
            (&[4, 90], Some("offset: 4320000s, limit: 40")),
            // Three are not few, and a gap in a list is not an outlier.
            (&[4, 4, 4], None),
        ];
        for (others, keys) in rows {
            assert_eq!(Outliers::among(&list(others)).map(|found| found.keys()).as_deref(), keys, "{others:?}");
        }
        let dates: Vec<SimTime> =
            list(&[4]).iter().map(|at| SimTime::from_secs(at.as_nanos() / 1_000_000_000 + 1_790_000_000)).collect();
        let found = Outliers::among(&dates).unwrap();
        assert_eq!(found.keys(), format!("from: {}", &dryrack_units::date::text(dates[1])[..10]));
        assert_eq!(
            found.sentence(),
            "1 of 41 jobs was submitted long before the others: 46d pass without a submission"
        );
    }
}

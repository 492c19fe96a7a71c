//! How sure it is that an alternative meets the constraints: with how many seeds it does, what this shows of all seeds, and
//! what is required.

use super::summary::Row;
use dryrack_expect::SeedShare;
use dryrack_metrics::{ResampledFrom, share_at_least};
use dryrack_report::about;
use dryrack_scenario::PlanFile;
use dryrack_units::{SimDuration, counted};

/// With fewer blocks than this, resampled lists are said to show too little of how logs differ.
const FEW_BLOCKS: u64 = 10;

/// With how many seeds the constraints hold, and the conclusion from them about all possible seeds, such as `19 of 20 seeds,
/// and therefore with at least 78% of all seeds (95% confidence, Clopper and Pearson); required: at least 90% of the seeds`.
pub(super) fn how_sure(plan: &PlanFile, row: &Row) -> String {
    let seeds = counted(row.runs, "seed");
    if row.runs < 2 {
        return seeds + &of_sections(row);
    }
    if !row.is_random {
        return format!("{seeds}, which all give the same run, because nothing in it is random{}", of_sections(row));
    }
    let with = match (row.kept == row.runs, plan.asked.len()) {
        (true, _) => seeds,
        (false, 1) => format!("{} of {seeds}", row.kept),
        (false, _) => format!("{} of {seeds} at the same time", row.kept),
    };
    let SeedsKept { least, all, .. } = SeedsKept::of(row).expect("more than one seed, and something is random");
    let few = match row.resampled {
        Some(from) if from.blocks < FEW_BLOCKS => {
            ". So few blocks do not show how much such logs differ; use shorter blocks, or a longer log"
        }
        _ => "",
    };
    format!(
        "{with}, and therefore with at least {least} {all} (95% confidence, Clopper and Pearson){}{few}",
        required(&plan.asked, row)
    )
}

/// With how many seeds an alternative meets all constraints, and what this shows of all seeds.
pub(super) struct SeedsKept {
    pub kept: usize,
    pub runs: usize,
    /// At least, or at most, this share of all seeds meets all constraints, such as `78%`.
    pub least: String,
    pub most: String,
    /// What these are shares of, such as `of all seeds`.
    pub all: String,
}

impl SeedsKept {
    /// `None` if nothing is random, or there is one seed.
    pub fn of(row: &Row) -> Option<SeedsKept> {
        let (kept, runs) = (row.kept, row.runs);
        let (least, most, all) = (String::new(), String::new(), all_of(row.resampled));
        let of = SeedsKept { kept, runs, least, most, all };
        (runs > 1 && row.is_random).then(|| SeedsKept {
            least: format!("{}%", (of.at_least() * 100.0).floor()),
            most: of.most_percent(),
            ..of
        })
    }

    /// Such as `12 of 20 seeds`.
    pub fn seeds(&self) -> String {
        format!("{} of {}", self.kept, counted(self.runs, "seed"))
    }

    /// One-sided limits of the share, each with 95 % confidence.
    pub fn at_least(&self) -> f64 {
        share_at_least(self.kept, self.runs)
    }

    pub fn at_most(&self) -> f64 {
        1.0 - share_at_least(self.runs - self.kept, self.runs)
    }

    /// The upper limit, rounded up. It has more decimals if it would otherwise be 100% although some seed fails.
    fn most_percent(&self) -> String {
        let rounded = |digits: usize| {
            let scale = [1.0, 10.0, 100.0, 1000.0][digits];
            (self.at_most() * 100.0 * scale).ceil() / scale
        };
        let is_below = |digits: &usize| rounded(*digits) < 100.0;
        let digits = if self.kept == self.runs { 0 } else { (0..3).find(is_below).unwrap_or(3) };
        format!("{:.digits$}%", rounded(digits))
    }
}

fn all_of(resampled: Option<ResampledFrom>) -> String {
    match resampled {
        Some(from) => {
            format!("of all lists that can be drawn from the {} of this log", counted(from.blocks as usize, "block"))
        }
        None => "of all seeds".to_string(),
    }
}

/// The share of the seeds that each constraint requires, such as `; required: at least 90% of the seeds`. Empty if all seeds are
/// required.
fn required(asked: &[SeedShare], row: &Row) -> String {
    let each = || asked.iter().zip(&row.held).zip(&row.constraints);
    if asked.iter().all(|share| *share == SeedShare::ALL) {
        return String::new();
    }
    if let [share] = asked {
        return format!("; required: {share}");
    }
    if row.kept == row.runs {
        return String::new();
    }
    let texts: Vec<String> =
        each().map(|((share, held), name)| format!("{name} with {held} of {} (required: {share})", row.runs)).collect();
    format!(": {}", texts.join(", "))
}

/// What a single run shows about other runs of the same kind; empty if it is not a sample of anything.
fn of_sections(row: &Row) -> String {
    let Some(sections) = &row.sections else { return String::new() };
    let of = format!("{} sections of {}", sections.sections, about(sections.length()));
    match (sections.is_dependent(), sections.p95) {
        (true, _) => format!(
            ". This is one run. It gives no interval, because its {of} depend on each other (correlation {:.2}); \
             resample a longer trace, or use more seeds",
            sections.correlation
        ),
        (false, None) => String::new(),
        (false, Some((low, high))) => {
            let time = |seconds: f64| about(SimDuration::from_nanos((seconds * 1e9) as u64));
            let waits = match sections.never_placed {
                0 => "the waits".to_string(),
                never => format!("the waits (without {}, never placed)", counted(never as usize, "replica")),
            };
            match high {
                Some(high) => format!(
                    ". This is one run: by its {of}, the 95th percentile of {waits} is {} to {} (95% confidence)",
                    time(low),
                    time(high)
                ),
                None => {
                    let least = match low > 0.0 {
                        true => format!("; by its {of}, it is {} or more (95% confidence)", time(low)),
                        false => String::new(),
                    };
                    format!(
                        ". This is one run, too short to say how long the 95th percentile of {waits} may be{least}. Resample \
                         the trace, or use more seeds"
                    )
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{alternative, plan};
    use super::*;
    use dryrack_metrics::WaitSections;
    use dryrack_units::Permille;

    /// The one-sided limit of Clopper and Pearson for 19 of 20 is 0.7839.
    #[test]
    fn a_required_share_is_said_with_the_seeds_that_met_it() {
        let most = SeedShare::AtLeast(Permille::new(900));
        let row = |held: Vec<usize>, kept: usize| Row {
            runs: 20,
            is_random: true,
            constraints: ["p95(queue_wait) <= 2h", "cost <= 9"].map(String::from).to_vec(),
            held,
            kept,
            ..alternative(0, None)
        };
        let of = |asked: &[SeedShare], row: &Row| how_sure(&PlanFile { asked: asked.to_vec(), ..plan() }, row);
        let sure = "and therefore with at least 78% of all seeds (95% confidence, Clopper and Pearson)";
        assert_eq!(
            of(&[most], &row(vec![19], 19)),
            format!("19 of 20 seeds, {sure}; required: at least 90% of the seeds")
        );
        assert_eq!(
            of(&[most, SeedShare::ALL], &row(vec![19, 20], 19)),
            format!(
                "19 of 20 seeds at the same time, {sure}: p95(queue_wait) <= 2h with 19 of 20 (required: at least 90% of the \
                 seeds), cost <= 9 with 20 of 20 (required: every seed)"
            )
        );
        assert!(!of(&[SeedShare::ALL], &row(vec![20], 20)).contains("required"));
    }

    #[test]
    fn an_interval_of_placed_replicas_says_so() {
        let row = |never_placed| Row {
            is_random: true,
            sections: Some(WaitSections {
                sections: 10,
                section_seconds: 86_400.0,
                correlation: 0.0,
                mean: Some((60.0, 120.0)),
                p95: Some((600.0, Some(1200.0))),
                never_placed,
            }),
            ..alternative(0, None)
        };
        let all = "This is one run: by its 10 sections of 1d00h, the 95th percentile of the waits is 10m to 20m (95% \
                   confidence)";
        assert_eq!(of_sections(&row(0)), format!(". {all}"));
        let some = all.replace("the waits", "the waits (without 3 replicas, never placed)");
        assert_eq!(of_sections(&row(3)), format!(". {some}"));
    }
}

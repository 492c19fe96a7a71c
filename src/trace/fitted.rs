//! The model of Lublin and Feitelson with parameters fitted to a list. It is stored as a JSON file, so that a reader
//! can see and change the parameters. [`super::fit()`] creates it from a list, and new lists are drawn from it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::gamma::Gamma;
use super::lublin::{Kind, Kinds, lublin};
use super::row::TraceTask;

/// The unit of a job's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Processors,
    Gpus,
}

/// A model that was fitted to a list.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    pub model: Model,
    pub of: Unit,
    /// The size of the machine. No job is wider than this.
    pub size: u32,
    /// The number of jobs in the list.
    pub jobs: u64,
    pub parameters: Kind,
    /// How much a list drawn from the model differs from the list that the model was fitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Distances>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Model {
    #[serde(rename = "lublin-feitelson")]
    LublinFeitelson,
}

/// The distances between two lists. Each is the largest difference between their cumulative distributions (Kolmogorov
/// and Smirnov), from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distances {
    pub widths: f64,
    pub lengths: f64,
    pub gaps: f64,
    /// The distance between the distributions of submissions over the hours of the day.
    pub hours: f64,
    /// The distance that two samples of the same distribution exceed with a probability of one in a thousand.
    pub by_chance: f64,
    /// The processor or GPU hours in the drawn list, divided by those in the recorded list.
    pub work: f64,
}

/// If a distance exceeds `by_chance` by more than this factor, the list does not follow the model.
const UNLIKE: f64 = 3.0;

/// Why no list can be drawn from a model.
#[derive(Debug, Error)]
pub enum BadModel {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("`{field}`: expected {expected}, found {found}")]
    Value { field: &'static str, expected: &'static str, found: f64 },
}

impl Fitted {
    /// Reads a model from the text of its file. Errors in the JSON have a line and a column.
    pub fn read(text: &str) -> Result<Fitted, BadModel> {
        let fitted: Fitted = serde_json::from_str(text)?;
        fitted.check()?;
        Ok(fitted)
    }

    fn check(&self) -> Result<(), BadModel> {
        let kind = &self.parameters;
        let [low, middle, high] = kind.widths;
        let part = "a share from 0 to 1";
        let is = |field, expected, found: f64, holds: bool| match holds && found.is_finite() {
            true => Ok(()),
            false => Err(BadModel::Value { field, expected, found }),
        };
        is("size", "1 or more", f64::from(self.size), self.size >= 1)?;
        is("serial", part, kind.serial, (0.0..=1.0).contains(&kind.serial))?;
        is("powers", "a share that is at most 1 minus `serial`", kind.powers, {
            kind.powers >= 0.0 && kind.serial + kind.powers <= 1.0 + 1e-9
        })?;
        is("narrow", part, kind.narrow, (0.0..=1.0).contains(&kind.narrow))?;
        is("widths", "binary logarithms from 0 to 31", low, low >= 0.0)?;
        is("widths", "a second number that is not below the first", middle, middle >= low)?;
        is("widths", "a third number from the second to 31", high, high >= middle && high <= 31.0)?;
        is("shorts", "two numbers", kind.shorts.0 + kind.shorts.1, true)?;
        is("longest_run", "a logarithm above 0 and at most 23", kind.longest_run, {
            kind.longest_run > 0.0 && kind.longest_run <= 23.0
        })?;
        is("longest_gap", "a logarithm above 0 and at most 23", kind.longest_gap, {
            kind.longest_gap > 0.0 && kind.longest_gap <= 23.0
        })?;
        for (field, gamma, cut) in [
            ("short", Some(kind.short), kind.longest_run),
            ("long", Some(kind.long), kind.longest_run),
            ("gap", Some(kind.gap), kind.longest_gap),
            ("day", kind.day, 58.5),
        ] {
            let Some(Gamma { shape, scale }) = gamma else { continue };
            is(field, "a shape from 1 to 1000000", shape, (1.0..=1e6).contains(&shape))?;
            is(field, "a scale above 0", scale, scale > 0.0)?;
            // Values above the cut are drawn again, so enough values must lie below it.
            let below = Gamma { shape, scale }.below(cut);
            is(field, "a distribution with at least a thousandth below the limit", below, below >= 1e-3)?;
        }
        is("day_begins", "a half hour from 0 to 47", f64::from(kind.day_begins), kind.day_begins < 48)?;
        let worth = kind.day.map_or(1.0, |day| day.below(58.5) - day.below(10.5));
        is("day", "at least a thousandth of the arrivals in the day", worth, worth >= 1e-3)
    }

    /// Draws the first `count` jobs, beginning at midnight. Draws fewer if the time becomes too large to represent.
    pub fn draw(&self, count: u64, seed: u64) -> impl Iterator<Item = TraceTask> {
        let unit = self.of;
        lublin(Kinds::Of(self.parameters), self.size, count, seed).map(move |task| match unit {
            Unit::Processors => TraceTask { queue: None, ..task },
            Unit::Gpus => TraceTask { queue: None, gpus: task.processors, processors: None, ..task },
        })
    }

    /// The model as text, one line for each parameter.
    pub fn lines(&self) -> Vec<String> {
        let kind = &self.parameters;
        let unit = match self.of {
            Unit::Processors => "processor",
            Unit::Gpus => "GPU",
        };
        let gamma = |gamma: Gamma| format!("gamma of shape {:.4} and scale {:.4}", gamma.shape, gamma.scale);
        let [low, middle, high] = kind.widths;
        let mut lines = vec![
            format!("the model of Lublin and Feitelson, fitted to {} jobs on {} {unit}s", self.jobs, self.size),
            format!("serial      {:.3} take one {unit}, {:.3} a power of two", kind.serial, kind.powers),
            format!("width       2^{low:.2} to 2^{middle:.2}, of the wider ones {:.3}, or to 2^{high:.2}", kind.narrow),
            format!("short runs  e to the {}", gamma(kind.short)),
            format!("long runs   e to the {}, at most {:.2}", gamma(kind.long), kind.longest_run),
            format!("short are   {:.3} {:+.5} for each {unit}", kind.shorts.0, kind.shorts.1),
            format!("gaps        e to the {} points, at most {:.2}", gamma(kind.gap), kind.longest_gap),
        ];
        lines.push(match kind.day {
            Some(day) => {
                let begins = format!("{:02}:{:02}", kind.day_begins / 2, kind.day_begins % 2 * 30);
                format!("day         {} half hours, begins at {begins}", gamma(day))
            }
            None => "day         all hours have the same weight".to_string(),
        });
        lines.extend(self.apart.map(|apart| {
            format!(
                "distance    {:.3} in widths, {:.3} in lengths, {:.3} in gaps, {:.3} in hours of the day, {:.3} \
                 expected by chance; work is {:.2} of the recorded work",
                apart.widths, apart.lengths, apart.gaps, apart.hours, apart.by_chance, apart.work
            )
        }));
        let furthest = |apart: Distances| apart.widths.max(apart.lengths).max(apart.gaps);
        if self.apart.is_some_and(|apart| furthest(apart) > UNLIKE * apart.by_chance) {
            let instead = "`dryrack trace resample` draws from the list's own tasks and gaps";
            lines.push(format!("mismatch    the model does not match this list; {instead}"));
        }
        lines
    }
}

//! Metrics that a program registers under its own names.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::account::RunAccount;
use super::definitions::METRICS;
use super::finished::Row;
use super::value::{Definition, Value};
use dryrack_units::SimDuration;

/// Computes a metric from all counted replicas of a run. Returns `None` if there is nothing to compute it from.
pub type MetricFunction = fn(&[Row<'_>]) -> Option<f64>;

#[derive(Clone, Copy)]
struct Own {
    definition: &'static Definition,
    value: MetricFunction,
}

static OWN: RwLock<BTreeMap<String, Own>> = RwLock::new(BTreeMap::new());

/// Registers a metric. Registered metrics are written to `metrics.json` and to reports after the built-in ones, in
/// order of their names. Expectations can use them like any other metric: `expect: [jobs_that_returned >= 0.9]`. If a
/// name ends with `_seconds`, the metric is a time, and expectations leave this ending out: `longest_break <= 10m`. The
/// result of the function must depend only on its argument, and the function may compute only with `+ - * /`, so that
/// the metric is the same on every machine.
///
/// # Errors
/// Returns an error if the name is taken, or if it has characters other than lowercase letters, digits and `_`.
pub fn register_metric(name: &str, meaning: &str, value: MetricFunction) -> Result<(), String> {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.chars().all(is_letter) {
        return Err(format!("`{name}` must consist of lowercase letters, digits and `_`"));
    }
    let counts_in = if name.ends_with("_seconds") { "s" } else { "ratio" };
    let (name, meaning): (&'static str, &'static str) = (Box::leak(name.into()), Box::leak(meaning.into()));
    let definition = Definition { name, counts_in, meaning, source: "" };
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    let mut known = METRICS.iter().chain(own.values().map(|own| own.definition));
    if known.any(|known| known.short_name() == definition.short_name()) {
        return Err(format!("a metric named `{}` already exists", definition.short_name()));
    }
    own.insert(name.to_string(), Own { definition: Box::leak(Box::new(definition)), value });
    Ok(())
}

/// All metrics in the order of output: first the built-in ones, then the registered ones by name.
pub fn definitions() -> Vec<&'static Definition> {
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner);
    METRICS.iter().chain(own.values().map(|own| own.definition)).collect()
}

/// The definition of the metric with this name.
pub fn definition_of(name: &str) -> Option<&'static Definition> {
    definitions().into_iter().find(|definition| definition.name == name)
}

/// The values of the registered metrics.
pub(super) fn own_values(accounts: &RunAccount) -> Vec<(&'static Definition, Value)> {
    let own: Vec<Own> = OWN.read().unwrap_or_else(PoisonError::into_inner).values().copied().collect();
    if own.is_empty() {
        return Vec::new();
    }
    let mut rows = Vec::new();
    accounts.each_row(|row| rows.push(row));
    let value = |own: Own| match ((own.value)(&rows).filter(|value| value.is_finite()), own.definition.counts_in) {
        (None, _) => Value::Undefined,
        // A time is stored in nanoseconds. Other values, such as a negative time, are undefined.
        (Some(seconds), "s") if (0.0..1e10).contains(&seconds) => {
            Value::Time(SimDuration::from_nanos((seconds * 1e9) as u64))
        }
        (Some(_), "s") => Value::Undefined,
        (Some(value), _) => Value::Ratio(value),
    };
    own.into_iter().map(|own| (own.definition, value(own))).collect()
}

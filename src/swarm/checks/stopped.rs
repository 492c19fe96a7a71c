//! A run that is stopped in the middle: what its metrics say at least of replicas that have not ended is not more than what the
//! whole run shows.

use std::collections::BTreeMap;

use super::case::{Case, CheckResult, Judged};
use dryrack_event::{Record, RecordBody, Sink};
use dryrack_ids::JobId;
use dryrack_metrics::{Row, RunAccount, Series, Value};

pub(super) fn judge(case: &Case<'_>) -> CheckResult {
    let Some(middle) = case.log.get(case.log.len() / 2) else { return Ok(Judged::DoesNotApply) };
    let until = case.log.partition_point(|record| record.at <= middle.at);
    let (stopped, whole) = (accounts(case, &case.log[..until]), accounts(case, case.log));
    let mut rows: BTreeMap<(JobId, u32), Row<'_>> = BTreeMap::new();
    whole.each_row(|row| {
        rows.insert((row.job, row.replica), row);
    });
    let mut wrong = None;
    stopped.each_row(|row| {
        let Some(last) = rows.get(&(row.job, row.replica)) else { return };
        let run = last.completed().zip(last.last_started).map(|(ended, started)| ended.since(started));
        // A node that cannot be heard reports starts and ends late, and loops of dstack see them late.
        let is_as_stated = stopped
            .run_range(&row)
            .zip(run)
            .is_some_and(|(range, run)| run >= range.least && range.most.is_none_or(|most| run <= most));
        for (series, name, _) in Series::ALL {
            let is_of_run = matches!(series, Series::RunTime | Series::BoundedSlowdown);
            // An attempt that is interrupted may be followed by a shorter one.
            if is_of_run && !is_as_stated || series == Series::RunTime && row.attempt != last.attempt {
                continue;
            }
            let least = series.at_least(&row, &stopped);
            if let Some((least, found)) = least.zip(series.of(last)).filter(|(one, other)| is_more(one, other)) {
                wrong = Some(format!(
                    "{name} of {:?}/{} is at least {least:?} at {}, and {found:?} at the end",
                    row.job, row.replica, middle.at
                ));
            }
        }
    });
    wrong.map_or(Ok(Judged::Holds), Err)
}

fn accounts(case: &Case<'_>, log: &[Record]) -> RunAccount {
    let mut accounts = RunAccount::of(case.world);
    for record in log {
        match &record.said {
            RecordBody::Input(input) => accounts.input(record.step, record.at, input),
            RecordBody::Event(event) => accounts.event(record.step, record.at, event),
        }
    }
    accounts.finish(log.last().expect("there is one").at);
    accounts
}

/// Ratios are quotients of doubles.
fn is_more(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Time(one), Value::Time(other)) => one > other,
        (Value::Ratio(one), Value::Ratio(other)) => *one > other * (1.0 + 1e-12),
        (one, other) => panic!("{one:?} is of another unit than {other:?}"),
    }
}

//! The run is stopped in the middle, and its control plane goes on from the log.

use super::case::{Case, CheckResult, Judged, log_of};
use dryrack_engine::{Rehearsal, Replay};
use std::sync::Arc;

pub fn judge(case: &Case<'_>) -> CheckResult {
    let Some(middle) = case.log.get(case.log.len() / 2) else { return Ok(Judged::DoesNotApply) };
    let until = middle.at;
    let first = log_of(&Rehearsal { until: Some(until), ..case.world.clone() });
    let whole = case.log.partition_point(|record| record.at <= until);
    if first != case.log[..whole] {
        let place = first.iter().zip(case.log).take_while(|(one, other)| one == other).count();
        return Err(format!(
            "the run is stopped at {until}:\n  expected {:?}\n     found {:?}",
            case.log[..whole].get(place),
            first.get(place)
        ));
    }
    // What was recorded until then, and then the inputs of the rest.
    let mut resumed = Replay::new(Arc::clone(&case.world.profile), case.world.seed);
    for record in first.iter().chain(&case.log[whole..]) {
        resumed.take(record).map_err(|difference| format!("the run is resumed at {until}: {difference:?}"))?;
    }
    resumed.finish().map_err(|difference| format!("the run is resumed at {until}: {difference:?}"))?;
    Ok(Judged::Holds)
}

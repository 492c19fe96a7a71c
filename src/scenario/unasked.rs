//! Warns of custom filters that judge no job of the scenario, because they are in the list of another kind of job.

use std::collections::BTreeSet;

use dryrack_control::Profile;
use dryrack_scheduler::{FilterList, OwnFilter};
use dryrack_workload::Demand;
use dryrack_yaml::Report;

/// Warns of each custom filter in a list that judges none of these demands, and names the lists that judge them. A filter
/// that these lists have too, by its name or its reason, is meant for both.
pub(super) fn warn<'d>(profile: Option<&Profile>, demands: impl Iterator<Item = &'d Demand>, report: &mut Report) {
    // A profile that could not be read has already been reported.
    let Some(profile) = profile else { return };
    if profile.scheduler.own_filters().next().is_none() {
        return;
    }
    let asked: BTreeSet<FilterList> = demands.map(FilterList::of).collect();
    let filters = |list: &FilterList| profile.scheduler.own_filters_in(*list);
    for list in FilterList::ALL.iter().filter(|list| !asked.is_empty() && !asked.contains(list)) {
        for filter in filters(list) {
            let is_same = |other: &_| same(filter, *other);
            if asked.iter().any(|asked| filters(asked).iter().any(is_same)) {
                continue;
            }
            let Some(place) = report.noted(&format!("{}.{}", list.path(), filter.name())) else { continue };
            let message = format!(
                "the filter `{}` judges no job: `{}` is for {}, and the scenario has none",
                filter.name(),
                list.path(),
                jobs_of(*list)
            );
            let homes: Vec<String> =
                asked.iter().map(|list| format!("in `{}` for {}", list.path(), jobs_of(*list))).collect();
            report.warning(place, message, format!("write it {}", homes.join(", or ")));
        }
    }
}

fn same(one: OwnFilter, other: OwnFilter) -> bool {
    one.name() == other.name() || one.because() == other.because()
}

/// The jobs that a list judges.
fn jobs_of(list: FilterList) -> &'static str {
    match list {
        FilterList::Tasks => "jobs without `model` and `resources`",
        FilterList::Models => "jobs with `model`",
        FilterList::Offers => "jobs with `resources`",
    }
}

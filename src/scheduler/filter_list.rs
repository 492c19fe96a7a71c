//! The lists of filters in a profile, and the demands that each of them judges.

use super::deployment::DeploymentFilter;
use super::filter::FilterName;
use super::options::SchedulerOptions;
use super::own::OwnFilter;
use dryrack_workload::{Demand, DemandKind};

/// A list of filters in a profile. Every demand is judged by one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterList {
    Tasks,
    Models,
    Offers,
}

impl FilterList {
    pub const ALL: [FilterList; 3] = [FilterList::Tasks, FilterList::Models, FilterList::Offers];

    /// The list that judges this demand.
    pub fn of(demand: &Demand) -> FilterList {
        match demand.kind {
            DemandKind::Tasks(_) | DemandKind::Sets(_) => FilterList::Tasks,
            DemandKind::Model(_) => FilterList::Models,
            DemandKind::Requirements(_) => FilterList::Offers,
        }
    }

    /// The path of the list in a profile.
    pub fn path(self) -> &'static str {
        match self {
            FilterList::Tasks => "scheduler.filters",
            FilterList::Models => "scheduler.deployments.filters",
            FilterList::Offers => "scheduler.offers.filters",
        }
    }
}

impl SchedulerOptions {
    /// The custom filters of a list, in order.
    pub fn own_filters_in(&self, list: FilterList) -> Vec<OwnFilter> {
        match list {
            FilterList::Tasks => {
                let own = self.filters.iter().filter_map(|filter| match filter.stage {
                    FilterName::Own(own) => Some(own),
                    _ => None,
                });
                own.collect()
            }
            FilterList::Models => {
                let own = self.deployments.filters.iter().filter_map(|filter| match filter {
                    DeploymentFilter::Own(own) => Some(*own),
                    _ => None,
                });
                own.collect()
            }
            FilterList::Offers => self.offers.filters.clone(),
        }
    }

    /// All custom filters: for tasks, for models and for offers.
    pub fn own_filters(&self) -> impl Iterator<Item = OwnFilter> + '_ {
        FilterList::ALL.into_iter().flat_map(|list| self.own_filters_in(list))
    }
}

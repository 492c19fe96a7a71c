//! Floor 4. The scheduler decides where jobs are placed. It is a pipeline of filters, a generator of candidates and
//! scorers, together with the order of the queue.
//!
//! This room owns every verdict and its reason. Each kind of demand (tasks, a model, requirements) has a placer, and
//! only `dispatch::with_placer` chooses among them. A stage maps a slice of classes to a slice of verdicts. A class
//! holds nodes in equal state, or a single node. Automatic placement and manual picks pass the same stages. The
//! scheduler reads a fleet, must never change it, and never asks for the time.

#![warn(clippy::unwrap_used)]

mod by_node;
#[cfg(test)]
mod by_node_tests;
mod by_rank;
mod claimable;
mod consolidate;
mod context;
mod decide;
mod decision;
pub mod deployment;
mod dispatch;
mod draw;
mod entry;
mod examine;
mod filter;
mod filter_list;
mod finding;
mod fit;
#[cfg(test)]
mod fit_tests;
mod fragment;
#[cfg(test)]
mod gang_tests;
mod gpu_order;
mod islands;
mod lack;
mod memo;
mod neighbours;
mod node_class;
pub mod offers;
mod options;
mod order;
mod own;
mod pick;
mod placer;
mod queue;
#[cfg(test)]
mod queue_tests;
mod racks;
mod ranking;
#[cfg(test)]
mod ranking_tests;
mod read_fields;
#[cfg(test)]
mod reasons_tests;
mod refusals;
mod room;
mod scorer;
#[cfg(test)]
mod scorer_tests;
mod select;
mod sets;
mod shortage;
mod sight;
pub mod slurm;
mod stage_name;
mod stage_schema;
mod stages;
mod states;
mod target;
mod tasks;
#[cfg(test)]
mod tasks_tests;
#[cfg(test)]
mod test_world;
mod uniform;
mod verdict;

pub use by_node::{asks_for_itself, asks_no_more, decide_among, implied, is_by_node, may_ever_do};
pub use claimable::{is_large_enough, is_of_type};
pub use context::PlacementContext;
pub use decide::{
    candidate_for, decide, decide_for, evaluate, ever_fits, placement_scores, refused_at_submission, still_fits,
};
pub use decision::{Candidate, Decision};
pub use deployment::DeploymentOptions;
pub use draw::Draw;
pub use entry::Entry;
pub use examine::{Examination, examine, examine_for};
pub use filter::{Exemption, FilterName, FilterStage};
pub use filter_list::FilterList;
pub use finding::{GpuFinding, NodeFinding, Shortage};
pub use fragment::{Free, fragment};
pub use gpu_order::GpuOrder;
pub use lack::lacks;
pub use memo::FragmentMemo;
pub use node_class::{Grouping, NodeClass};
pub use options::{
    Backfill, Discipline, FairShare, GangPlaces, Lines, NeverFits, Outlook, Preempt, Rounding, SchedulerOptions,
    SlotOptions, Ties, Unfit,
};
pub use order::OrderKey;
pub use own::{
    ComparedText, Comparison, Expression, NodeView, OwnFilter, OwnKey, OwnScorer, Relation, RequestView, StageError,
    Surroundings, Value, Variable, WaitingView, check_filter, check_order, check_scorer, order_variables,
    placement_variables, register_filter, register_order, register_scorer,
};
pub use pick::{on_gpu, on_node};
pub use queue::{MOST_KEYS, QueueKey, WaitQueue};
pub use ranking::{Caching, Rankings};
pub use refusals::Refusals;
pub use room::{asks_for_readiness, is_by_room, nodes_among_neighbours, place_among_neighbours, room, why_no_room};
pub use scorer::{ScorerName, WeightedScorer};
pub use select::{Selectable, refused_picks, select, select_for};
pub use sight::{GangPart, SchedulerView};
pub use target::{Target, TargetShape, TaskShape};
pub use verdict::Verdict;

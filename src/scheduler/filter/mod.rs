//! Filters decide whether nodes may be used at all, and say why if not. Each filter judges only classes that have
//! passed all earlier filters.

mod compatible;
pub mod labels;
pub mod picked;
pub mod ready;
mod resources;

pub use compatible::{model_refusal, model_refusal_without_gpu};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpu_order::GpuOrder;
use super::node_class::NodeClass;
use super::own::{NodeView, OwnFilter, RequestView, filter_named};
use super::stage_name::StageName;
use super::verdict::{Reads, Verdict};
use dryrack_workload::{Pick, TaskGroup};

/// One filter. A demand that matches `unless` passes the filter without being judged. Only a historic profile may have
/// an `unless`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterStage {
    pub stage: FilterName,
    pub unless: Option<Exemption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exemption {
    /// GPUs on several nodes were picked manually. In GPUStack before 0.6.0, such a pick read the workers again from
    /// the store and so bypassed the filters (issue 1548).
    PickedOnSeveralNodes,
}

/// The inputs of one filter.
struct FilterInput<'a> {
    demand: TaskGroup<'a>,
    order: GpuOrder,
    class: &'a NodeClass<'a>,
}

/// One row for each filter: its name in profiles, what it reads, and its verdict.
macro_rules! filters {
    ($($(#[doc = $doc:literal])* $filter:ident => $name:literal, $reads:ident, $judge:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FilterName {
            $($(#[doc = $doc])* $filter,)*
            /// An expression, or a function that a program registered.
            Own(OwnFilter),
        }

        impl FilterName {
            /// All filters of the table.
            pub const ALL: [FilterName; [$($name),*].len()] = [$(FilterName::$filter),*];
            const NAMES: &'static [&'static str] = &[$($name),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(FilterName::$filter => $name,)*
                    FilterName::Own(own) => own.name(),
                }
            }

            pub fn reads(self) -> Reads {
                match self {
                    $(FilterName::$filter => Reads::$reads,)*
                    FilterName::Own(own) => own.reads(),
                }
            }

            fn judge(self, asked: &FilterInput<'_>) -> Verdict {
                match self {
                    $(FilterName::$filter => {
                        let judge: fn(&FilterInput<'_>) -> Verdict = $judge;
                        judge(asked)
                    })*
                    FilterName::Own(own) => {
                        let FilterInput { demand, class, .. } = asked;
                        let (node, request) = (NodeView::of(class), RequestView::of_tasks(*demand, class));
                        own.judge(&node, &request, class.is_ideal)
                    }
                }
            }
        }
    };
}

filters! {
    /// Only nodes and GPUs that were picked manually.
    Picked => "picked", Pick, |it| picked::judge(it.class.picked, || picked::has_gpus(it.demand, it.class));
    /// Only nodes with the labels that the task asks for.
    Labels => "labels", Shape, |it| labels::judge(&it.demand.task.labels, &it.class.shape.labels);
    /// Only nodes that are ready.
    Ready => "ready", State, |it| ready::judge(it.class.status.state);
    /// Only nodes whose system and GPUs can run the task.
    Compatible => "compatible", Shape, |it| compatible::judge(it.demand, it.class);
    /// Only nodes with enough free resources.
    Resources => "resources", State, |it| resources::judge(it.demand, it.order, it.class);
}

impl StageName for FilterName {
    const NAMES: &'static [&'static str] = FilterName::NAMES;

    fn named(name: &str) -> Option<FilterName> {
        let known = FilterName::ALL.into_iter().find(|known| known.name() == name);
        known.or_else(|| filter_named(name).map(FilterName::Own))
    }
}

/// Runs one filter over the classes that have passed all earlier filters.
pub fn apply(
    stage: &FilterStage,
    order: GpuOrder,
    demand: TaskGroup<'_>,
    classes: &[NodeClass],
    verdicts: &mut [Verdict],
) {
    for (class, verdict) in classes.iter().zip(verdicts) {
        if verdict.is_fit() {
            *verdict = judge_one(stage, order, demand, class);
        }
    }
}

/// One filter's answer for one class.
#[inline]
pub fn judge_one(stage: &FilterStage, order: GpuOrder, demand: TaskGroup<'_>, class: &NodeClass) -> Verdict {
    if stage.unless.is_some_and(|exemption| is_exempt(exemption, demand)) {
        return Verdict::Fit;
    }
    stage.stage.judge(&FilterInput { demand, order, class })
}

fn is_exempt(exemption: Exemption, demand: TaskGroup<'_>) -> bool {
    match (exemption, demand.pick) {
        (Exemption::PickedOnSeveralNodes, Some(pick @ (Pick::Gpus(_) | Pick::AllGpus(_)))) => pick.nodes().len() > 1,
        (Exemption::PickedOnSeveralNodes, Some(Pick::Nodes(_)) | None) => false,
    }
}

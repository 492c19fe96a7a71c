//! The form of an input in logs: one list without classes. The order of the list is part of the compact form, so a new
//! input goes to its end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::input::{External, FleetFact, Input, Lifecycle, UsageFact, UserRequest};
use super::outside::Outside;
use super::served::ServiceReport;
use dryrack_fleet::{FleetSpec, Foreign, GpuState, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, FleetId, GpuId, JobId, NodeId, declared};
use dryrack_objects::ClusterObjects;
use dryrack_units::{Bytes, Permille, SimTime};
use dryrack_workload::{Demand, JobSpec};

/// An input as in logs. [`Input`] and the enums of its classes say what each one means.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Wire {
    FleetDeclared {
        #[serde(with = "declared")]
        fleet: FleetId,
        spec: Arc<FleetSpec>,
    },
    NodeDeclared {
        #[serde(with = "declared")]
        node: NodeId,
        state: NodeState,
        spec: NodeSpec,
    },
    NodeReported {
        node: NodeId,
        state: NodeState,
    },
    HeartbeatBack {
        node: NodeId,
    },
    HeartbeatMissed {
        node: NodeId,
        last: SimTime,
    },
    GpuReported {
        gpu: GpuId,
        state: GpuState,
    },
    ForeignUse {
        gpu: GpuId,
        foreign: Foreign,
    },
    CapacityReported {
        fleet: FleetId,
        offer: u32,
        available: u32,
    },
    #[serde(rename = "run")]
    Attempt {
        #[serde(rename = "run")]
        attempt: AttemptId,
        fact: Lifecycle,
    },
    UsageSample {
        #[serde(rename = "run")]
        attempt: AttemptId,
        at: SimTime,
        utilization: SmallVec<[Option<Permille>; 8]>,
        memory: SmallVec<[Option<Bytes>; 0]>,
    },
    Cancel {
        job: JobId,
    },
    RequestsCounted {
        job: JobId,
        requests: u64,
    },
    Scale {
        job: JobId,
        replicas: u32,
    },
    Submit {
        #[serde(with = "declared")]
        job: JobId,
        spec: Arc<JobSpec>,
    },
    Wakeup,
    Evaluate {
        name: Arc<str>,
        demand: Arc<Demand>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spec: Option<Arc<JobSpec>>,
    },
    Reconfigure {
        profile: Arc<str>,
    },
    Decided {
        #[serde(rename = "run")]
        attempt: AttemptId,
        placement: Option<Placement>,
    },
    Outside(Outside),
    ObjectsDeclared {
        objects: Arc<ClusterObjects>,
    },
    KueueApplied {
        objects: Arc<str>,
    },
    RequestsServed {
        job: JobId,
        report: Arc<ServiceReport>,
    },
}

/// Writes the conversions between both forms. Each row is a pattern on one side and an expression on the other.
macro_rules! conversions {
    ($(($($wire:tt)*) = ($($input:tt)*);)*) => {
        impl From<Wire> for Input {
            fn from(wire: Wire) -> Input {
                match wire { $($($wire)* => $($input)*,)* }
            }
        }

        impl From<Input> for Wire {
            fn from(input: Input) -> Wire {
                match input { $($($input)* => $($wire)*,)* }
            }
        }
    };
}

conversions! {
    (Wire::FleetDeclared { fleet, spec }) = (Input::Fleet(FleetFact::FleetDeclared { fleet, spec }));
    (Wire::NodeDeclared { node, state, spec }) = (Input::Fleet(FleetFact::NodeDeclared { node, state, spec }));
    (Wire::NodeReported { node, state }) = (Input::Fleet(FleetFact::NodeReported { node, state }));
    (Wire::HeartbeatBack { node }) = (Input::Fleet(FleetFact::HeartbeatBack { node }));
    (Wire::HeartbeatMissed { node, last }) = (Input::Fleet(FleetFact::HeartbeatMissed { node, last }));
    (Wire::GpuReported { gpu, state }) = (Input::Fleet(FleetFact::GpuReported { gpu, state }));
    (Wire::ForeignUse { gpu, foreign }) = (Input::Fleet(FleetFact::ForeignUse { gpu, foreign }));
    (Wire::CapacityReported { fleet, offer, available }) =
        (Input::Fleet(FleetFact::CapacityReported { fleet, offer, available }));
    (Wire::Attempt { attempt, fact }) = (Input::Attempt { attempt, fact });
    (Wire::UsageSample { attempt, at, utilization, memory }) =
        (Input::Usage(UsageFact::Sample { attempt, at, utilization, memory }));
    (Wire::Cancel { job }) = (Input::User(UserRequest::Cancel { job }));
    (Wire::RequestsCounted { job, requests }) = (Input::Usage(UsageFact::Requests { job, requests }));
    (Wire::Scale { job, replicas }) = (Input::User(UserRequest::Scale { job, replicas }));
    (Wire::Submit { job, spec }) = (Input::Submit { job, spec });
    (Wire::Wakeup) = (Input::Wakeup);
    (Wire::Evaluate { name, demand, spec }) = (Input::Evaluate { name, demand, spec });
    (Wire::Reconfigure { profile }) = (Input::Fleet(FleetFact::Reconfigure { profile }));
    (Wire::Decided { attempt, placement }) = (Input::External(External::Decided { attempt, placement }));
    (Wire::Outside(said)) = (Input::External(External::Said(said)));
    (Wire::KueueApplied { objects }) = (Input::Fleet(FleetFact::KueueApplied { objects }));
    (Wire::RequestsServed { job, report }) = (Input::Usage(UsageFact::Served { job, report }));
    (Wire::ObjectsDeclared { objects }) = (Input::Fleet(FleetFact::ObjectsDeclared { objects }));
}

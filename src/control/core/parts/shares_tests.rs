//! Tests of the accounts of fair shares.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shares::Shares;
use dryrack_fleet::{GpuClaim, NodeClaim, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::FairShare;
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

/// A placement with this many cores, and with these thousandths of GPUs.
fn placement(cores: u64, gpus: &[u32]) -> Placement {
    let part = |(index, share): (usize, &u32)| GpuClaim {
        index: index as u16,
        share: GpuShare::new(*share),
        memory: Bytes::ZERO,
    };
    let gpus = gpus.iter().enumerate().map(part).collect();
    let claim = NodeClaim { tasks: 1, cpu: MilliCpu::from_cores(cores), gpus, ..NodeClaim::of_nothing(NodeId::new(0)) };
    Placement::new([claim].into())
}

#[test]
fn past_use_loses_half_of_its_weight_with_every_half_life() {
    let weights = BTreeMap::from([("ann".to_string(), 2.0)]);
    let options = FairShare { half_life: SimDuration::from_secs(100), weights };
    let mut shares = Shares::new(&options);
    let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
    let numbers = [Some(&ann), None, Some(&bob), Some(&ann), None];
    assert_eq!(numbers.map(|user| shares.number(user, &options, at(0))), [0, 1, 2, 0, 1]);
    // A whole GPU and a half for 100 s: the integral of 1,500 * 0.5^(t / 100) is 1,500 * 100 / ln 2 * (1 - 1/2). Without a
    // GPU, cores count.
    shares.take(0, at(0), &placement(4, &[1000, 500]));
    shares.take(1, at(0), &placement(4, &[]));
    let mut charged =
        |seconds| -> Vec<i64> { shares.charged(at(seconds)).iter().map(|had| had.round() as i64).collect() };
    // 108,202.1 with a weight of 2, and 288,539.0.
    assert_eq!(charged(100), [54_101, 288_539, 0]);
    assert_eq!(charged(100), [54_101, 288_539, 0]);
    shares.give_back(0, at(100), &placement(4, &[1000, 500]));
    shares.give_back(1, at(100), &placement(4, &[]));
    let mut charged =
        |seconds| -> Vec<i64> { shares.charged(at(seconds)).iter().map(|had| had.round() as i64).collect() };
    assert_eq!(charged(200), [27_051, 144_270, 0]);
    assert_eq!(charged(400), [6_763, 36_067, 0]);
}

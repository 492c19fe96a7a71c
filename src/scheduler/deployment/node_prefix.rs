//! All GPUs of several nodes with equal numbers of GPUs, added node by node until they are enough.

use super::candidate::{Candidate, Generated};
use super::largest_gpus::known;
use super::options::{Divisor, NodeCount, Unreserved};
use super::search::{Group, Pass, Search, UpstreamException};

/// The rules of one profile.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub divisor: Divisor,
    pub count: NodeCount,
    pub without_reservation: Unreserved,
}

pub fn find(search: &Search, rules: Rules, pass: &mut Pass) -> Result<Generated, UpstreamException> {
    if !search.request.deployment.distributable {
        return Ok(Generated::Written(Vec::new()));
    }
    let groups = search.groups(*pass);
    *pass = Pass::Later;
    let mut found = Vec::new();
    for group in &groups {
        if group.nodes.len() >= 2 {
            found.extend(find_in(search, rules, group)?);
        }
    }
    Ok(Generated::Written(found))
}

pub fn find_in(search: &Search, rules: Rules, group: &Group) -> Result<Option<Candidate>, UpstreamException> {
    let mut order: Vec<(usize, u32)> =
        group.nodes.iter().map(|node| (search.listed_count(*node, group.kind), *node)).collect();
    order.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    for nodes in order.chunk_by(|one, other| one.0 == other.0) {
        let each = nodes[0].0;
        let divides = rules.divisor == Divisor::Total || search.plan.divides(each as i64);
        if each == 0 || nodes.len() < 2 || !divides {
            continue;
        }
        if let Some(candidate) = prefix(search, rules, group, each, nodes)? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

fn prefix(
    search: &Search,
    rules: Rules,
    group: &Group,
    each: usize,
    nodes: &[(usize, u32)],
) -> Result<Option<Candidate>, UpstreamException> {
    let plan = search.plan;
    let counted = |at: usize| match (search.reserves(at), rules.without_reservation) {
        (true, _) => search.reservation(at),
        (false, Unreserved::Total) => search.columns().total[at],
        (false, Unreserved::Nothing) => 0,
    };
    let (mut taken, mut gpus, mut sum) = (Vec::new(), 0i64, 0u64);
    for (_, node) in nodes {
        search.check_unified(*node, group.kind)?;
        if search.listed(*node, group.kind).any(|at| search.ratio(at, group.kind) < search.utilization(at)) {
            continue;
        }
        taken.push(*node);
        gpus += each as i64;
        sum = search.listed(*node, group.kind).fold(sum, |sum, at| sum.saturating_add(counted(at)));
        if rules.count == NodeCount::Exact {
            match plan.count.filter(|count| *count != 0) {
                Some(count) if gpus < count => continue,
                Some(count) if gpus > count => return Ok(None),
                Some(_) | None => {}
            }
        }
        let divides = rules.divisor == Divisor::PerNode || (plan.heads_known && plan.divides(gpus));
        if divides && sum as f64 >= plan.need {
            return Ok(Some(candidate(search, group, &taken)));
        }
    }
    Ok(None)
}

fn candidate(search: &Search, group: &Group, nodes: &[u32]) -> Candidate {
    let share = |node: &u32| {
        let gpus = search.listed(*node, group.kind);
        search.share(*node, gpus, |at| search.reservation(at))
    };
    Candidate {
        main: share(&nodes[0]),
        subordinates: nodes[1..].iter().map(share).collect(),
        kind: group.kind,
        overcommit: false,
        known: known(search, nodes[0], group.kind),
    }
}

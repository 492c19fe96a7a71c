//! Cloud fleets: converts the `offers:`, `capacity:` and `idle_duration:` of a fleet. Each instance that may ever exist
//! gets a node in advance, called its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::instances::{self, Common, HOST_FIELDS};
use super::lengths::{lengths, positive};
use super::machines;
use super::money;
use super::nodes::Base;
use super::terms::idle_limit;
use super::world::{World, copies};
use dryrack_control::{LONGEST_PROVISIONING, Profile};
use dryrack_engine::{InitialNode, ModelFiles, OfferModel};
use dryrack_event::Reason;
use dryrack_fleet::{Cloud, FleetNodes, IdleDuration, NodeShape, NodeSpec, NodeState};
use dryrack_rng::Lengths;
use dryrack_scheduler::Unfit;
use dryrack_scheduler::offers::{NewInstances, smallest_slice};
use dryrack_units::{Permille, SimTime};
use dryrack_workload::{IdleLimit, Requirements};
use dryrack_yaml::{Fields, Node, Report, Span, name, text, value};

/// Fields of an offer in addition to those of a host.
const OFFER_FIELDS: [&str; 7] =
    ["name", "available", "provisioning", "termination", "interrupted", "refused", "failed"];

/// The largest number of places for instances that one offer may have.
const MAX_PLACES: u32 = 10_000;

/// Reads the settings that the control plane knows about a fleet with instances created on demand.
pub(super) fn read(fields: &Fields<'_>, nodes: Option<FleetNodes>, report: &mut Report) -> Option<Cloud> {
    if !fields.has("offers") {
        for key in ["capacity", "idle_duration"].into_iter().filter(|key| fields.has(key)) {
            let help = "add `offers: [{name: a100, machine: a100-80g-x8}]`";
            let message = format!("`{key}` works only in a fleet with `offers`");
            report.error_with_help(fields.key_span(key), message, help);
        }
        return None;
    }
    let capacity = fields.list("offers", report).iter().map(|tree| {
        let available = tree.get("available").and_then(|tree| value::<u32>(tree, report));
        available.or(nodes.and_then(|nodes| nodes.max))
    });
    let capacity: Vec<Option<u32>> = capacity.collect();
    if capacity.contains(&None) {
        let help = "add `nodes: 0..4`, or `available: 4` to each offer";
        report.error_with_help(fields.key_span("offers"), "the number of instances is not limited", help);
    }
    let capacity = capacity.into_iter().map(Option::unwrap_or_default).collect();
    Some(Cloud { capacity, idle_duration: idle_duration(fields, report) })
}

/// Warns if fleets create instances on demand and no job of the file can ever be placed on one.
pub(super) fn warn_of_unused(file: &Fields<'_>, world: &World, report: &mut Report) {
    let clouds: Vec<&str> =
        world.fleets.iter().filter(|fleet| fleet.cloud.is_some()).map(|fleet| &*fleet.name).collect();
    if clouds.is_empty() || !world.wanted.is_empty() {
        return;
    }
    let (word, names) = (if clouds.len() == 1 { "fleet" } else { "fleets" }, clouds.join("`, `"));
    let message = format!("no job can use the {word} `{names}`, because none has `resources`");
    let help = if file.has("trace") {
        "write `run_on: instances` in `trace:`, leave the fleet out, or write jobs with `resources: {gpu: 8}`"
    } else {
        "write `resources: {gpu: 8}` in a job instead of `gpus: 8`"
    };
    report.warning(if file.has("fleets") { file.key_span("fleets") } else { file.place() }, message, help);
}

/// Warns of each fleet that creates instances of which no job of the file meets any, such as spot instances for jobs that ask
/// for instances on demand. What it says also belongs into the report.
pub(super) fn warn_of_unmet(file: &Fields<'_>, profile: &Profile, world: &mut World, report: &mut Report) {
    if report.has_errors() {
        return;
    }
    let mut found = Vec::new();
    let clouds = world.fleets.iter().enumerate().filter(|(_, fleet)| fleet.cloud.is_some());
    for (number, fleet) in clouds.filter(|_| !world.wanted.is_empty()) {
        let is_of_it =
            |shape: &&Arc<NodeShape>| shape.instance.as_ref().is_some_and(|instance| instance.fleet.index() == number);
        let mut shapes: Vec<&Arc<NodeShape>> =
            world.nodes.iter().map(|node| &node.spec.shape).filter(is_of_it).collect();
        // All places of an offer share one shape.
        shapes.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let may_use = |wanted: &Requirements| wanted.fleets.is_empty() || wanted.fleets.contains(&fleet.name);
        let offers = &profile.scheduler.offers;
        let mut reasons: BTreeMap<Reason, u64> = BTreeMap::new();
        let asked = world.wanted.iter().filter(|(wanted, ..)| may_use(wanted));
        let all_fail = asked
            .flat_map(|(wanted, tasks, _)| shapes.iter().map(move |shape| (wanted, *tasks, *shape)))
            .all(|(wanted, tasks, shape)| {
                let reason = smallest_slice(offers, wanted, shape, tasks > 1).err();
                reason.into_iter().for_each(|reason| *reasons.entry(reason).or_default() += 1);
                reason.is_some()
            });
        if let Some((reason, _)) = reasons.iter().max_by_key(|(_, count)| **count).filter(|_| all_fail) {
            found.push((Arc::clone(&fleet.name), *reason, reasons.len() == 1));
        }
    }
    for (name, reason, is_only) in found {
        let (why, help) = match reason {
            Reason::SpotMismatch => (
                "because jobs ask for the other kind of instances, spot or on demand".to_string(),
                "jobs ask for on-demand instances unless they have `spot_policy: auto` or `spot_policy: spot`",
            ),
            reason => (
                format!(
                    "because its instances do not suit them ({}{})",
                    if is_only { "" } else { "most often: " },
                    reason.text()
                ),
                "change `resources` of the jobs, or the offers of the fleet",
            ),
        };
        let message = format!("no job can use the fleet `{name}`, {why}");
        report.warning(file.key_span("fleets"), message.clone(), help);
        world.assumed.insert(message);
    }
}

/// Warns if the file has nodes of its own, and each of its jobs asks for instances of fleets, which they are not.
pub(super) fn warn_of_unused_nodes(file: &Fields<'_>, (entries, world): (usize, &World), report: &mut Report) {
    if file.has("nodes") && file.has("fleets") && entries > 0 && world.wanted.len() == entries {
        let message = "no job can use `nodes:`, because each has `resources`, which only instances of `fleets:` meet";
        let help = "list these machines as a fleet, with their prices: `fleets: {own: {hosts: [{name: h0, machine: \
                    a100-80g-x8, price_per_hour: 16}]}}`; or write `gpus: 8` in a job instead of `resources: {gpu: 8}`";
        report.warning(file.key_span("nodes"), message, help);
    }
}

fn idle_duration(fields: &Fields<'_>, report: &mut Report) -> IdleDuration {
    match fields.get("idle_duration").and_then(|tree| idle_limit(tree, report)) {
        None => IdleDuration::Usual,
        Some(IdleLimit::Off) => IdleDuration::Off,
        Some(IdleLimit::After(length)) => IdleDuration::After(length),
    }
}

/// Adds a place (a node that does not exist yet) for each instance that the fleet could ever have. Also adds the model
/// of how its cloud handles requests.
pub(super) fn places(
    fields: &Fields<'_>,
    fleet: &str,
    common: &Common<'_>,
    base: &Base,
    world: &mut World,
    profile: &Profile,
    report: &mut Report,
) {
    world.clouds.offers.push(Vec::new());
    if !fields.has("offers") {
        return;
    }
    if profile.flow.requests_instances() && profile.scheduler.offers.new_instances == NewInstances::Never {
        let message = format!("the profile `{}` creates no instances", profile.name);
        report.error_with_help(fields.key_span("offers"), message, "write `profile: dstack`, or list `hosts`");
    }
    if profile.flow.passes_over_queue() && profile.scheduler.unfit == Unfit::End {
        let message = format!(
            "the profile `{}` never creates an instance: it refuses a job that does not fit at once",
            profile.name
        );
        let help = "write another profile, such as `profile: best-fit`, or `nodes: {min: 1, max: 4}` to start with an \
             instance";
        report.warning(fields.key_span("offers"), message, help);
    }
    let mut names: Vec<&str> = Vec::new();
    for (number, tree) in fields.list("offers", report).iter().enumerate() {
        let known = [&OFFER_FIELDS[..], &machines::FIELDS, &HOST_FIELDS].concat();
        let Some(own) = Fields::read(tree, "an offer of a cloud", &known, report) else { continue };
        let Some(name) = own.require("name", "a100", report).and_then(|tree| name(tree, report)) else { continue };
        if names.contains(&name) {
            let message = format!("two offers of `{fleet}` are named `{name}`");
            report.error_with_help(own.key_span("name"), message, "give each offer a different name");
            continue;
        }
        names.push(name);
        let own = &own;
        let model = model(own, common, report);
        if model.interrupted.is_none() && own.value("spot", report).unwrap_or(common.spot) {
            world.assumed.insert(format!(
                "spot instances of the offer `{name}` of `{fleet}` are never interrupted, because it has no `interrupted`"
            ));
        }
        world.clouds.offers[common.fleet.index()].push(model);
        let min = world.fleets[common.fleet.index()].nodes.map_or(0, |nodes| nodes.min);
        world.endless_clouds.extend(goes_on(own, &model, min));
        let shape = instances::instance(own, common, Some(number as u32), base, world, profile, report);
        money::check_offer(own, &shape, report);
        if let Err(excess) = shape.check_size() {
            report.error_with_help(own.place(), excess, "write the real size of the machine");
        }
        let places = most_places(fields, common, number, name, world, report);
        world.has_power |= shape.power.is_some();
        world.gpu_types.extend(shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)));
        world.groups.insert(format!("{fleet}-{name}"));
        for place in copies(&format!("{fleet}-{name}"), places) {
            if world.node_names.add(Arc::clone(&place)).is_err() {
                let message = format!("two nodes are named `{place}`");
                report.error_with_help(own.key_span("name"), message, "give the offer another name");
                break;
            }
            let spec = NodeSpec { name: place, shape: Arc::clone(&shape) };
            let files = ModelFiles::default();
            world.nodes.push(InitialNode { spec, state: NodeState::Gone, gpus: Vec::new(), files });
        }
    }
    changes(fields, common, &names, world, report);
}

/// The setting of an offer because of which a run could go on forever: its place in the file, and a description of the
/// problem.
fn goes_on(own: &Fields<'_>, model: &OfferModel, min: u32) -> Option<(Span, &'static str)> {
    let is_quick = matches!(model.provisioning, Lengths::Fixed(length) if length <= LONGEST_PROVISIONING);
    match (model.interrupted, min > 0 && !is_quick) {
        (Some(_), _) => Some((own.key_span("interrupted"), "instances would be taken away and created again forever")),
        (None, true) => {
            Some((own.key_span("provisioning"), "instances could be ready too late and be requested again forever"))
        }
        (None, false) => None,
    }
}

/// Requires an `until` for every run that could go on forever.
pub(super) fn refuse_endless(world: &World, until: Option<SimTime>, report: &mut Report) {
    for (span, what) in world.endless_clouds.iter().filter(|_| until.is_none()) {
        let help = "write `until: 24h` in the file";
        report.error_with_help(*span, format!("{what}, so the run might never end"), help);
    }
}

/// The largest number of instances of the offer that may exist at one time.
fn most_places(
    fields: &Fields<'_>,
    common: &Common<'_>,
    number: usize,
    name: &str,
    world: &World,
    report: &mut Report,
) -> u32 {
    let spec = &world.fleets[common.fleet.index()];
    let first = spec.cloud.as_ref().and_then(|cloud| cloud.capacity.get(number).copied()).unwrap_or_default();
    let later = fields.list("capacity", report).iter().filter(|tree| {
        let offer = tree.get("offer").and_then(|offer| offer.scalar());
        offer.is_none_or(|offer| offer == name)
    });
    let later = later.filter_map(|tree| tree.get("available")?.scalar()?.parse::<u32>().ok());
    let most = later.chain([first]).max().unwrap_or_default();
    let most = most.min(spec.nodes.and_then(|nodes| nodes.max).unwrap_or(u32::MAX));
    if most > MAX_PLACES {
        let message = format!("more than {MAX_PLACES} instances of one offer");
        report.error_with_help(
            fields.key_span("offers"),
            message,
            "write a smaller `available`, or a smaller maximum in `nodes`",
        );
    }
    most.min(MAX_PLACES)
}

fn model(fields: &Fields<'_>, common: &Common<'_>, report: &mut Report) -> OfferModel {
    let provisioning = fields.get("provisioning").and_then(|tree| lengths(tree, report));
    let interrupted = fields.get("interrupted").and_then(|tree| match &tree.node {
        Node::Scalar { .. } => positive(tree, report).map(Lengths::Fixed),
        Node::Map(_) | Node::List(_) => lengths(tree, report),
    });
    let is_spot = fields.value("spot", report).unwrap_or(common.spot);
    if interrupted.is_some() && !is_spot {
        let message = "only spot instances can be interrupted";
        report.error_with_help(fields.key_span("interrupted"), message, "add `spot: true`");
    }
    OfferModel {
        provisioning: provisioning.unwrap_or(OfferModel::IDEAL.provisioning),
        termination: fields.value("termination", report).unwrap_or_default(),
        interrupted,
        refused: chance(fields, "refused", report),
        failed: chance(fields, "failed", report),
    }
}

fn chance(fields: &Fields<'_>, key: &str, report: &mut Report) -> Permille {
    let chance: Permille = fields.value(key, report).unwrap_or(Permille::ZERO);
    if chance > Permille::new(1000) {
        report.error_with_help(fields.key_span(key), "a probability above 100%", "write 100% or less");
    }
    chance
}

/// Reads `capacity: [{at: 2h, offer: a100, available: 0}]`; an entry without `offer` applies to all offers.
fn changes(fields: &Fields<'_>, common: &Common<'_>, names: &[&str], world: &mut World, report: &mut Report) {
    for tree in fields.list("capacity", report) {
        let Some(own) = Fields::read(tree, "a change of capacity", &["at", "offer", "available"], report) else {
            continue;
        };
        let at = own.require("at", "2h", report).and_then(|tree| value::<SimTime>(tree, report));
        let available = own.require("available", "0", report).and_then(|tree| value::<u32>(tree, report));
        let meant: Vec<u32> = match own.get("offer") {
            None => (0..names.len() as u32).collect(),
            Some(tree) => {
                let Some(typed) = text(tree, "the name of an offer", report) else { continue };
                let found = names.iter().position(|known| *known == typed);
                if found.is_none() {
                    report.unknown(tree.span, format!("no offer is named `{typed}`"), typed, names.iter().copied());
                }
                found.map(|number| number as u32).into_iter().collect()
            }
        };
        let (Some(at), Some(available)) = (at, available) else { continue };
        let change = |offer| (at, common.fleet, offer, available);
        world.clouds.capacity.extend(meant.into_iter().map(change));
    }
    // The sort is stable: changes at the same time keep the order of the file.
    world.clouds.capacity.sort_by_key(|(at, ..)| *at);
}

//! The search for devices that satisfy all claims of a pod on one node.
//!
//! The search tries devices in order of pool, slice and place in the slice, and alternatives in the order of the
//! request. The first complete assignment is taken.

use std::sync::Arc;

use super::{Devices, Reach};
use crate::cluster::NodeInfo;
use crate::object::{
    AllocatedDevices, Allocation, AllocationMode, Attribute, DeviceRequest, DeviceResult, ExactRequest, NodeSelector,
    NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, ResourceClaim,
};

/// The largest number of devices of one claim (`AllocationResultsMaxSize` of the API).
const DEVICES_MAX: usize = 32;
/// The largest number of alternatives of a request (`FirstAvailableDeviceRequestMaxSize` of the API).
const ALTERNATIVES_MAX: i64 = 8;
/// The number of steps after which the search counts as timed out. Upstream allows ten seconds.
const STEPS_MAX: u32 = 200_000;

/// An assignment of devices for all claims.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    pub claims: Vec<Claimed>,
    /// Higher if earlier alternatives are used.
    pub score: i64,
}

/// The devices for one claim.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// `namespace/name`.
    pub key: Arc<str>,
    pub allocation: Allocation,
}

/// Why the search ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocatorError {
    /// The claim or its class has an error, which does not depend on the node.
    Claim(String),
    /// The devices of this node have an error.
    Node(String),
    TimedOut,
}

enum Stop {
    /// The claim would get more devices than it can hold.
    TooMany,
    Error(AllocatorError),
}

/// One request of a claim, with its alternatives. A request of exact devices has one.
struct Wanted {
    claim: usize,
    name: Arc<str>,
    options: Vec<Want>,
}

struct Want {
    /// The name of the alternative, if the request has alternatives.
    alternative: Option<Arc<str>>,
    class: Arc<str>,
    selectors: Vec<Arc<str>>,
    count: usize,
    /// The devices, if all that match are wanted.
    all: Option<Vec<usize>>,
    admin_access: bool,
}

/// All devices of some requests must agree in an attribute.
struct Agreement {
    requests: Vec<Arc<str>>,
    attribute: Arc<str>,
    value: Option<Attribute>,
    devices: usize,
}

/// A device that the search holds.
struct Held {
    device: usize,
    wanted: usize,
    option: usize,
}

struct Search<'d> {
    devices: &'d mut Devices,
    claims: Vec<ResourceClaim>,
    wanted: Vec<Wanted>,
    agreements: Vec<Vec<Agreement>>,
    candidates: Vec<usize>,
    held: Vec<Held>,
    steps: u32,
}

impl Devices {
    /// Finds devices on a node for claims that have none yet. `None` if there are not enough devices.
    ///
    /// # Errors
    /// If a claim, its class or the devices of the node are faulty.
    pub fn allocate(&mut self, node: &NodeInfo, keys: &[Arc<str>]) -> Result<Option<Allocations>, AllocatorError> {
        let claims: Vec<ResourceClaim> = keys.iter().filter_map(|key| self.claims.get(key).cloned()).collect();
        let slices = self.slices_at(node);
        let mut candidates = Vec::new();
        let mut is_any_invalid = false;
        for slice in slices.iter().map(|index| &self.slices[*index]) {
            let pool = &self.pools[slice.pool];
            is_any_invalid |= !pool.is_valid;
            if pool.is_complete && pool.is_valid {
                candidates.extend(slice.devices.clone().filter(|device| !self.is_withdrawn[*device]));
            }
        }
        let agreements = claims.iter().map(agreements_of).collect();
        let mut search =
            Search { devices: self, claims, wanted: Vec::new(), agreements, candidates, held: Vec::new(), steps: 0 };
        search.prepare(&slices)?;
        match search.allocate_request(0) {
            Ok(true) => Ok(Some(search.result(node))),
            Ok(false) | Err(Stop::TooMany) if is_any_invalid => {
                Err(AllocatorError::Node("invalid resource pools were encountered".to_string()))
            }
            Ok(false) | Err(Stop::TooMany) => Ok(None),
            Err(Stop::Error(error)) => Err(error),
        }
    }
}

fn agreements_of(claim: &ResourceClaim) -> Vec<Agreement> {
    let constraints = claim.spec.devices.constraints.iter();
    let agreement = |constraint: &crate::object::Constraint| {
        let attribute = constraint.match_attribute.clone()?;
        Some(Agreement { requests: constraint.requests.clone(), attribute, value: None, devices: 0 })
    };
    constraints.filter_map(agreement).collect()
}

impl Search<'_> {
    /// Collects the requests, and counts how many devices each wants.
    fn prepare(&mut self, slices: &[usize]) -> Result<(), AllocatorError> {
        for claim in 0..self.claims.len() {
            let key = self.claims[claim].metadata.key();
            let requests = self.claims[claim].spec.devices.requests.clone();
            let mut least = 0;
            for request in &requests {
                let wanted = self.want(claim, &key, request, slices)?;
                least += wanted.options.iter().map(|want| want.count).min().unwrap_or(0);
                self.wanted.push(wanted);
            }
            if least > DEVICES_MAX {
                return Err(AllocatorError::Claim(format!(
                    "claim {key}: number of requested devices {least} exceeds the claim limit of {DEVICES_MAX}"
                )));
            }
        }
        Ok(())
    }

    fn want(
        &mut self,
        claim: usize,
        key: &str,
        request: &DeviceRequest,
        slices: &[usize],
    ) -> Result<Wanted, AllocatorError> {
        let mut options = Vec::new();
        for stated in request.exactly.iter().chain(&request.first_available) {
            let name = stated.name.as_ref().unwrap_or(&request.name);
            let mut want = Want {
                class: Arc::clone(&stated.device_class_name),
                selectors: stated.selectors.iter().map(|selector| Arc::clone(&selector.cel.expression)).collect(),
                count: usize::try_from(stated.count.unwrap_or(1)).unwrap_or(0),
                all: None,
                admin_access: stated.admin_access,
                alternative: stated.name.clone(),
            };
            self.check_class(key, name, stated)?;
            if stated.allocation_mode == AllocationMode::All {
                let all = self.all(key, name, &want, slices)?;
                want.count = all.len();
                want.all = Some(all);
            }
            options.push(want);
        }
        Ok(Wanted { claim, name: Arc::clone(&request.name), options })
    }

    fn check_class(&self, key: &str, name: &str, stated: &ExactRequest) -> Result<(), AllocatorError> {
        let class = &stated.device_class_name;
        if self.devices.has_class(class) {
            return Ok(());
        }
        let fault = format!("claim {key}, request {name}: could not retrieve device class {class}");
        Err(AllocatorError::Claim(fault))
    }

    /// All devices of the node that match, taken or not.
    fn all(&mut self, key: &str, name: &str, want: &Want, slices: &[usize]) -> Result<Vec<usize>, AllocatorError> {
        let mut all = Vec::new();
        for slice in slices {
            let slice = &self.devices.slices[*slice];
            let pool = &self.devices.pools[slice.pool];
            let fault = match (pool.is_complete, pool.is_valid) {
                (false, _) => Some("being updated"),
                (true, false) => Some("invalid"),
                (true, true) => None,
            };
            if let Some(fault) = fault {
                let pool = format!("{}/{}", pool.driver, pool.name);
                return Err(AllocatorError::Claim(format!(
                    "claim {key}, request {name}: asks for all devices, but resource pool {pool} is currently {fault}"
                )));
            }
            for device in slice.devices.clone() {
                if !self.devices.is_withdrawn[device] && self.is_selectable(key, want, device)? {
                    all.push(device);
                }
            }
        }
        Ok(all)
    }

    fn is_selectable(&mut self, key: &str, want: &Want, device: usize) -> Result<bool, AllocatorError> {
        is_selectable(self.devices, key, want, device)
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(Stop::Error(AllocatorError::TimedOut)) } else { Ok(()) }
    }

    /// Allocates this request and all after it.
    fn allocate_request(&mut self, wanted: usize) -> Result<bool, Stop> {
        self.step()?;
        let Some(request) = self.wanted.get(wanted) else { return Ok(true) };
        let options = request.options.len();
        if options == 1 && request.options[0].alternative.is_none() {
            return self.allocate_device(wanted, 0, 0);
        }
        let mut is_always_too_many = true;
        for option in 0..options {
            match self.allocate_device(wanted, option, 0) {
                Err(Stop::TooMany) => {}
                Ok(false) => is_always_too_many = false,
                ended => return ended,
            }
        }
        if is_always_too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    /// Allocates the devices of an alternative from the given number on, and all requests after it.
    fn allocate_device(&mut self, wanted: usize, option: usize, number: usize) -> Result<bool, Stop> {
        self.step()?;
        let request = &self.wanted[wanted];
        let claim = request.claim;
        let want = &request.options[option];
        if want.all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(false);
        }
        if number >= want.count {
            let is_last_of_claim = self.wanted.get(wanted + 1).is_none_or(|next| next.claim != claim);
            return match self.allocate_request(wanted + 1) {
                // A different alternative of an earlier claim would not change this, but a different alternative of
                // this claim may.
                Err(Stop::TooMany) if is_last_of_claim => Ok(false),
                ended => ended,
            };
        }
        let held = self.held.iter().filter(|held| self.wanted[held.wanted].claim == claim).count();
        if held + want.count - number > DEVICES_MAX {
            return Err(Stop::TooMany);
        }
        if let Some(all) = &want.all {
            let device = all[number];
            return Ok(self.is_free(wanted, option, device)
                && self.agrees(wanted, option, device, Must::Agree)?
                && self.try_with(wanted, option, number, device)?);
        }
        let key = self.claims[claim].metadata.key();
        for place in 0..self.candidates.len() {
            let device = self.candidates[place];
            if !self.is_free(wanted, option, device) {
                continue;
            }
            let want = &self.wanted[wanted].options[option];
            let selectable = is_selectable(self.devices, &key, want, device);
            if selectable.map_err(Stop::Error)?
                && self.agrees(wanted, option, device, Must::NotAgree)?
                && self.try_with(wanted, option, number, device)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Holds the device and allocates the rest. If this fails, releases the device.
    fn try_with(&mut self, wanted: usize, option: usize, number: usize, device: usize) -> Result<bool, Stop> {
        self.held.push(Held { device, wanted, option });
        let done = self.allocate_device(wanted, option, number + 1);
        if !matches!(done, Ok(true)) {
            self.held.pop();
            self.forget(wanted, option);
        }
        done
    }

    fn is_free(&self, wanted: usize, option: usize, device: usize) -> bool {
        let claim = self.wanted[wanted].claim;
        let is_held = |held: &Held| held.device == device;
        if self.wanted[wanted].options[option].admin_access {
            return !self.held.iter().any(|held| is_held(held) && self.wanted[held.wanted].claim == claim);
        }
        !self.devices.is_taken[device]
            && !self
                .held
                .iter()
                .any(|held| is_held(held) && !self.wanted[held.wanted].options[held.option].admin_access)
    }

    /// Whether the device agrees with the devices held so far in all required attributes. If it does, later devices are
    /// compared with it too.
    fn agrees(&mut self, wanted: usize, option: usize, device: usize, must: Must) -> Result<bool, Stop> {
        let request = &self.wanted[wanted];
        let want = &request.options[option];
        let known = &self.devices.devices[device];
        let agreements = &mut self.agreements[request.claim];
        let disagrees = |agreement: &Agreement| {
            agreement.concerns(&request.name, want) && {
                let value = attribute_of(known, &agreement.attribute);
                value.is_none() || (agreement.devices > 0 && value != agreement.value.as_ref())
            }
        };
        if agreements.iter().any(disagrees) {
            return match must {
                Must::NotAgree => Ok(false),
                Must::Agree => Err(Stop::Error(AllocatorError::Claim(format!(
                    "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                    self.claims[request.claim].metadata.key(),
                    want.alternative.as_ref().unwrap_or(&request.name),
                    known.id,
                )))),
            };
        }
        for agreement in agreements.iter_mut().filter(|agreement| agreement.concerns(&request.name, want)) {
            if agreement.devices == 0 {
                agreement.value = attribute_of(known, &agreement.attribute).cloned();
            }
            agreement.devices += 1;
        }
        Ok(true)
    }

    /// Undoes the effect of `agrees` for the last device.
    fn forget(&mut self, wanted: usize, option: usize) {
        let request = &self.wanted[wanted];
        let want = &request.options[option];
        let agreements = self.agreements[request.claim].iter_mut();
        for agreement in agreements.filter(|agreement| agreement.concerns(&request.name, want)) {
            agreement.devices -= 1;
        }
    }

    fn result(&self, node: &NodeInfo) -> Allocations {
        let mut claims: Vec<Claimed> = (self.claims.iter())
            .map(|claim| Claimed { key: claim.metadata.key(), allocation: Allocation::default() })
            .collect();
        for held in &self.held {
            let request = &self.wanted[held.wanted];
            let want = &request.options[held.option];
            let id = &self.devices.devices[held.device].id;
            claims[request.claim].allocation.devices.results.push(DeviceResult {
                request: match &want.alternative {
                    None => Arc::clone(&request.name),
                    Some(alternative) => Arc::from(format!("{}/{alternative}", request.name)),
                },
                driver: Arc::clone(&id.driver),
                pool: Arc::clone(&id.pool),
                device: Arc::clone(&id.device),
                admin_access: want.admin_access,
            });
        }
        for claimed in &mut claims {
            claimed.allocation.node_selector = self.reach(&claimed.allocation.devices, node);
        }
        Allocations { claims, score: self.score() }
    }

    /// The nodes that reach all of these devices; `None` if all nodes do.
    fn reach(&self, allocated: &AllocatedDevices, node: &NodeInfo) -> Option<NodeSelector> {
        let mut term = NodeSelectorTerm::default();
        for result in &allocated.results {
            let device = self.devices.by_id[&super::DeviceId::of(result)];
            let slice = self.devices.devices[device].slice;
            match &self.devices.slices[slice].reach {
                Reach::Node(_) => {
                    let name = NodeSelectorRequirement {
                        key: Arc::from("metadata.name"),
                        operator: NodeSelectorOperator::In,
                        values: vec![Arc::clone(node.name())],
                    };
                    let term = NodeSelectorTerm { match_fields: vec![name], ..NodeSelectorTerm::default() };
                    return Some(NodeSelector { node_selector_terms: vec![term] });
                }
                Reach::Selected(selector) => {
                    for own in &selector.node_selector_terms {
                        term.match_expressions.extend(own.match_expressions.iter().cloned());
                        term.match_fields.extend(own.match_fields.iter().cloned());
                    }
                }
                Reach::AllNodes | Reach::Nothing => {}
            }
        }
        (!term.is_empty()).then(|| NodeSelector { node_selector_terms: vec![term] })
    }

    /// The sum, over all requests with alternatives, of the largest number of alternatives minus the index of the
    /// alternative in use.
    fn score(&self) -> i64 {
        let mut score = 0;
        let mut last = None;
        for held in &self.held {
            let is_alternative = self.wanted[held.wanted].options[held.option].alternative.is_some();
            if is_alternative && last != Some(held.wanted) {
                score += ALTERNATIVES_MAX - held.option as i64;
            }
            last = Some(held.wanted);
        }
        score
    }
}

/// Whether it is an error if a device does not agree.
#[derive(Clone, Copy)]
enum Must {
    Agree,
    NotAgree,
}

impl Agreement {
    fn concerns(&self, request: &Arc<str>, want: &Want) -> bool {
        let is_full_name = |name: &str| {
            let alternative = want.alternative.as_deref();
            name.split_once('/').is_some_and(|(parent, own)| *parent == **request && Some(own) == alternative)
        };
        self.requests.is_empty() || self.requests.iter().any(|name| name == request || is_full_name(name))
    }
}

/// Finds an attribute by its full name. The driver's own attributes can be stated without the driver as their domain.
fn attribute_of<'k>(known: &'k super::Known, name: &str) -> Option<&'k Attribute> {
    let attributes = &known.device.attributes;
    attributes.get(name).or_else(|| {
        let (domain, id) = name.split_once('/')?;
        (*domain == *known.id.driver).then(|| attributes.get(id)).flatten()
    })
}

/// Whether a device satisfies the selectors of the class and then of the request.
fn is_selectable(devices: &mut Devices, key: &str, want: &Want, device: usize) -> Result<bool, AllocatorError> {
    let known = &devices.devices[device];
    let class = devices.classes.get(&want.class);
    let of_class = class.into_iter().flat_map(|class| &class.spec.selectors).map(|selector| &selector.cel.expression);
    for (number, expression) in of_class.enumerate() {
        let holds = devices.selectors.holds(expression, device, known);
        let fault = |fault| AllocatorError::Claim(format!("class {}: selector #{number}: {fault}", want.class));
        if !holds.map_err(fault)? {
            return Ok(false);
        }
    }
    for (number, expression) in want.selectors.iter().enumerate() {
        let holds = devices.selectors.holds(expression, device, known);
        let fault = |fault| AllocatorError::Claim(format!("claim {key}: selector #{number}: {fault}"));
        if !holds.map_err(fault)? {
            return Ok(false);
        }
    }
    Ok(true)
}

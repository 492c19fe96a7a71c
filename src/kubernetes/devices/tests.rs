//! Compares selectors with the Kubernetes documentation, and the allocator with a search through all assignments.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Allocations, AllocatorError, Devices};
use crate::cluster::NodeInfo;
use crate::object::Node;

fn node() -> NodeInfo {
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("a node");
    NodeInfo::new(node)
}

fn devices(slices: Value, claims: Value) -> Devices {
    let classes = json!([{"metadata": {"name": "any"}}]);
    let read = |value| serde_json::from_value(value);
    Devices::new(
        serde_json::from_value(classes).expect("classes"),
        serde_json::from_value(slices).expect("slices"),
        read(claims).expect("claims"),
    )
}

fn slice(name: &str, pool: &str, slices: usize, devices: Value) -> Value {
    let pool = json!({"name": pool, "generation": 1, "resourceSliceCount": slices});
    json!({"metadata": {"name": name},
           "spec": {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": devices}})
}

fn claim(requests: Value, constraints: Value) -> Value {
    json!([{"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, "constraints": constraints}}}])
}

fn allocate(slices: Value, claims: Value) -> Result<Option<Allocations>, AllocatorError> {
    devices(slices, claims).allocate(&node(), &[Arc::from("default/c")])
}

fn names(found: &Allocations) -> Vec<&str> {
    found.claims[0].allocation.devices.results.iter().map(|result| &*result.device).collect()
}

#[test]
fn a_selector_reads_the_driver_attributes_and_capacity() {
    let device = json!([{
        "name": "d",
        "attributes": {"model": {"string": "L4"}, "ecc": {"bool": true}, "index": {"int": 3},
                       "other.example.com/rev": {"version": "1.10.0"}},
        "capacity": {"memory": {"value": "24Gi"}},
    }]);
    let own = "device.attributes[\"gpu.example.com\"]";
    let rows = [
        ("device.driver == \"gpu.example.com\"".to_string(), Ok(true)),
        (format!("{own}.model == \"L4\" && {own}.ecc && {own}.index > 2"), Ok(true)),
        ("device.attributes[\"other.example.com\"].rev.compareTo(semver(\"1.9.0\")) > 0".to_string(), Ok(true)),
        (memory("compareTo(quantity(\"40Gi\")) >= 0"), Ok(false)),
        (memory("isGreaterThan(quantity(\"20Gi\"))"), Ok(true)),
        ("\"model\" in device.attributes[\"none.example.com\"]".to_string(), Ok(false)),
        (format!("has({own}.vendor)"), Ok(false)),
        ("cel.bind(own, device.attributes['gpu.example.com'], own.ecc && own.index == 3)".to_string(), Ok(true)),
        (format!("{own}.?vendor.optMap(v, v + 'x').orValue('none') == 'none'"), Ok(true)),
        (format!("{own}.?model.optMap(v, v + 'x').orValue('none') == 'L4x'"), Ok(true)),
        ("device.attributes['other.example.com'].rev.minor() == 10".to_string(), Ok(true)),
        ("semver('v01.2', true).compareTo(semver('1.2.0')) == 0 && !isSemver('v1', false)".to_string(), Ok(true)),
        (memory("isInteger()"), Ok(true)),
        ("quantity('1500m').isInteger() || quantity('-2').sign() != -1".to_string(), Ok(false)),
        ("quantity('1500m').asInteger() == 2".to_string(), Err("CEL runtime error: ")),
        (format!("{own}.model.matches('^[LT]4$') && !{own}.model.matches('^4')"), Ok(true)),
        (format!("{own}.model.lowerAscii() == 'l4' && {own}.model.split('L')[1] == '4'"), Ok(true)),
        (format!("{own}.model.find('[0-9]+') == '4' && {own}.model.find('x') == ''"), Ok(true)),
        (
            "'a1b22c3'.findAll('[0-9]+') == ['1', '22', '3'] && 'a1b2'.findAll('[0-9]', 1) == ['1']".to_string(),
            Ok(true),
        ),
        (format!("{own}.vendor == \"x\""), Err("CEL runtime error: no such key: vendor")),
        (format!("{own}.model"), Err("CEL runtime error: the expression is")),
        ("device.driver ==".to_string(), Err("CEL compile error: the expression ends too early")),
    ];
    for (expression, wanted) in rows {
        let selectors = json!([{"cel": {"expression": expression}}]);
        let request = json!([{"name": "r", "exactly": {"deviceClassName": "any", "selectors": selectors}}]);
        let found = allocate(json!([slice("s", "p", 1, device.clone())]), claim(request, json!([])));
        match (wanted, found) {
            (Ok(wanted), Ok(found)) => assert_eq!(found.is_some(), wanted, "{expression}"),
            (Err(wanted), Err(AllocatorError::Claim(fault))) => {
                assert!(fault.starts_with(&format!("claim default/c: selector #0: {wanted}")), "{expression}: {fault}");
            }
            (wanted, found) => panic!("{expression}: wanted {wanted:?}, found {found:?}"),
        }
    }
}

fn memory(test: &str) -> String {
    format!("device.capacity[\"gpu.example.com\"].memory.{test}")
}

#[test]
fn an_incomplete_pool_is_not_used_and_all_of_it_cannot_be_had() {
    let half = || json!([slice("s", "p", 2, json!([{"name": "d"}]))]);
    let exact = json!([{"name": "r", "exactly": {"deviceClassName": "any"}}]);
    assert!(allocate(half(), claim(exact.clone(), json!([]))).expect("no fault").is_none());
    let all = json!([{"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}]);
    let fault = allocate(half(), claim(all, json!([]))).expect_err("the pool may grow");
    let wanted = "claim default/c, request r: asks for all devices, but resource pool gpu.example.com/p is currently \
                  being updated";
    assert_eq!(fault, AllocatorError::Claim(wanted.to_string()));
    let twice = json!([slice("s", "p", 1, json!([{"name": "d"}, {"name": "d"}]))]);
    let fault = allocate(twice, claim(exact, json!([]))).expect_err("two devices of one name");
    assert_eq!(fault, AllocatorError::Node("invalid resource pools were encountered".to_string()));
}

#[test]
fn a_search_that_would_not_end_times_out() {
    // 40 devices that all differ in an attribute, and no 20 of them agree.
    let some: Vec<Value> =
        (0..40).map(|n| json!({"name": format!("d{n:02}"), "attributes": {"half": {"int": n % 4}}})).collect();
    let request = json!([{"name": "r", "exactly": {"deviceClassName": "any", "count": 20}}]);
    let constraint = json!([{"matchAttribute": "gpu.example.com/half"}]);
    let found = allocate(json!([slice("s", "p", 1, json!(some))]), claim(request, constraint));
    assert_eq!(found.expect_err("the steps do not suffice"), AllocatorError::TimedOut);
}

/// A simple random number generator for small worlds.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Up to two requests on up to five devices. The devices of the requests that `agree` names must be on one NUMA node.
struct World {
    numa: Vec<u64>,
    counts: Vec<u64>,
    agree: Vec<bool>,
}

impl World {
    fn draw(draw: &mut Draw) -> World {
        let numa = (0..1 + draw.below(5)).map(|_| draw.below(3)).collect();
        let requests = 1 + draw.below(2);
        let counts = (0..requests).map(|_| 1 + draw.below(3)).collect();
        World { numa, counts, agree: (0..requests).map(|_| draw.below(2) == 0).collect() }
    }

    /// The first assignment in order of devices, by trying each device for each place.
    fn first(&self, held: &mut Vec<usize>) -> bool {
        let wanted: Vec<usize> =
            self.counts.iter().enumerate().flat_map(|(request, count)| vec![request; *count as usize]).collect();
        if held.len() == wanted.len() {
            let mut bound = held.iter().zip(&wanted).filter(|(_, request)| self.agree[**request]);
            let first = bound.next().map(|(device, _)| self.numa[*device]);
            return bound.all(|(device, _)| Some(self.numa[*device]) == first);
        }
        for device in 0..self.numa.len() {
            if !held.contains(&device) {
                held.push(device);
                if self.first(held) {
                    return true;
                }
                held.pop();
            }
        }
        false
    }
}

#[test]
fn the_allocator_finds_the_first_assignment_of_a_plain_search() {
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let (mut met, mut unmet) = (0, 0);
    for number in 0..600 {
        let world = World::draw(&mut draw);
        let listed = world.numa.iter().enumerate();
        let listed: Vec<Value> =
            listed.map(|(n, numa)| json!({"name": format!("d{n}"), "attributes": {"numa": {"int": numa}}})).collect();
        let request = |(n, count): (usize, &u64)| json!({"name": format!("r{n}"), "exactly": {"deviceClassName": "any", "count": count}});
        let requests: Vec<Value> = world.counts.iter().enumerate().map(request).collect();
        let agreeing = world.agree.iter().enumerate().filter(|(_, agrees)| **agrees);
        let agreeing: Vec<String> = agreeing.map(|(n, _)| format!("r{n}")).collect();
        let constraints = match agreeing.is_empty() {
            true => json!([]),
            false => json!([{"requests": agreeing, "matchAttribute": "gpu.example.com/numa"}]),
        };
        let found = allocate(json!([slice("s", "p", 1, json!(listed))]), claim(json!(requests), constraints));
        let found = found.expect("no fault");
        let mut held = Vec::new();
        if world.first(&mut held) {
            met += 1;
            let wanted: Vec<String> = held.iter().map(|device| format!("d{device}")).collect();
            assert_eq!(found.as_ref().map(names), Some(wanted.iter().map(String::as_str).collect()), "world {number}");
        } else {
            unmet += 1;
            assert!(found.is_none(), "world {number}");
        }
    }
    assert!(met > 100 && unmet > 100, "{met} met, {unmet} unmet");
}

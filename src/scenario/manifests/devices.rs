//! Devices that drivers publish, as GPUs of the nodes that reach them.
//!
//! A device counts as a GPU, or as a part of one, if the name of its driver begins with `gpu.` or `npu.`, as those of
//! NVIDIA (`gpu.nvidia.com`), AMD and Intel do. Devices of other drivers, such as network cards and fabric channels, do
//! not. A MIG device is a part of its parent.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_catalog::{self as catalog, Vendor};
use dryrack_fleet::{DeviceName, GpuShape, NodeShape, PublishedDevice};
use dryrack_objects::{Attribute, Device, ResourceSlice};
use dryrack_units::{Bytes, GpuShare};
use dryrack_yaml::{Report, Span};

use super::super::world::World;

/// Adds the devices of these slices to the nodes that reach them. `span` is where the scenario has its manifests.
pub(super) fn declare(slices: &[ResourceSlice], span: Span, world: &mut World, report: &mut Report) {
    let mut of_nodes: BTreeMap<&Arc<str>, Vec<Published<'_>>> = BTreeMap::new();
    let mut elsewhere = 0;
    let newest = newest(slices);
    for slice in slices {
        let spec = &slice.spec;
        let is_newest = newest[&(&spec.driver, &spec.pool.name)] == spec.pool.generation;
        if !is_newest || !is_of_gpus(&spec.driver) {
            continue;
        }
        match &spec.node_name {
            Some(node) => {
                let devices = spec.devices.iter().map(|device| Published { slice, device });
                of_nodes.entry(node).or_default().extend(devices);
            }
            None => elsewhere += spec.devices.len(),
        }
    }
    if elsewhere > 0 {
        let message = format!(
            "{elsewhere} published GPUs are not of one node; pods can claim them, but no metric of GPUs counts them"
        );
        report.warning(span, message, "write `nodeName` in the ResourceSlice if one node alone has the devices");
    }
    let mut doubled = Vec::new();
    for (name, devices) in of_nodes {
        let Some(place) = world.node_names.find(name) else { continue };
        let mut shape = NodeShape::clone(&world.nodes[place].spec.shape);
        let own = shape.gpus.len();
        let mut unknown = Vec::new();
        add(&devices, &mut shape, &mut unknown);
        if let [first, ..] = &unknown[..] {
            let message = format!(
                "device `{first}` of node `{name}` is of the type `mig` and states no GPU that it is a part of, so no \
                 metric of GPUs counts it"
            );
            report.warning(span, message, "write its attribute `parentUUID`");
        }
        if let Err(excess) = shape.check_size() {
            report.error_with_help(span, format!("node `{name}` has {excess}"), "publish the devices that it has");
            continue;
        }
        if own > 0 && shape.gpus.len() > own {
            doubled.push((name, own, shape.gpus.len() - own));
        }
        world.gpu_types.extend(shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)));
        world.nodes[place].spec.shape = world.shared_shape(shape);
    }
    if let [(name, own, published), ..] = &doubled[..] {
        let others = match doubled.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more nodes have both"),
        };
        let message = format!(
            "node `{name}` has {own} GPUs that pods request and {published} that pods claim{others}; kube-scheduler \
             takes them for different GPUs"
        );
        report.warning(span, message, "if they are the same, take them from the node: only one driver can give them");
    }
}

/// A device and the slice that publishes it.
#[derive(Clone, Copy)]
struct Published<'s> {
    slice: &'s ResourceSlice,
    device: &'s Device,
}

/// The newest generation of each pool, by driver and name.
fn newest(slices: &[ResourceSlice]) -> BTreeMap<(&Arc<str>, &Arc<str>), i64> {
    let mut newest = BTreeMap::new();
    for spec in slices.iter().map(|slice| &slice.spec) {
        let known = newest.entry((&spec.driver, &spec.pool.name)).or_insert(spec.pool.generation);
        *known = spec.pool.generation.max(*known);
    }
    newest
}

fn is_of_gpus(driver: &str) -> bool {
    driver.starts_with("gpu.") || driver.starts_with("npu.")
}

/// Adds the GPUs of the devices to the shape of their node. Devices of a GPU that is not known go to `unknown`.
fn add(devices: &[Published<'_>], shape: &mut NodeShape, unknown: &mut Vec<Arc<str>>) {
    let mut by_key: BTreeMap<Arc<str>, u16> = BTreeMap::new();
    let whole = devices.iter().filter(|one| !one.is_partition());
    for one in whole {
        let own = [one.text("uuid"), Some(Arc::clone(&one.device.name))];
        let own = own.into_iter().flatten().map(|key| one.of_driver(&key));
        let keys: Vec<Arc<str>> = own.chain(one.text(PCI_ADDRESS)).collect();
        // A GPU can be published twice, for instance for containers and for virtual machines.
        let known = keys.iter().find_map(|key| by_key.get(key).copied());
        let gpu = known.unwrap_or_else(|| push(shape, one.gpu()));
        by_key.extend(keys.into_iter().map(|key| (key, gpu)));
        publish(shape, one, gpu, (GpuShare::WHOLE, None));
    }
    for one in devices.iter().filter(|one| one.is_partition()) {
        let Some(parent) = one.parent() else {
            unknown.push(Arc::clone(&one.device.name));
            continue;
        };
        let gpu = match by_key.get(&parent) {
            Some(gpu) => *gpu,
            // A GPU that is cut into parts is not published itself.
            None => push(shape, GpuShape { memory: whole_memory(one), ..one.gpu() }),
        };
        by_key.insert(parent, gpu);
        let memory = one.memory();
        publish(shape, one, gpu, (one.part(), memory));
    }
}

/// The standard attribute of Kubernetes for the address of a device on the PCI bus.
const PCI_ADDRESS: &str = "resource.kubernetes.io/pciBusID";

fn push(shape: &mut NodeShape, gpu: GpuShape) -> u16 {
    shape.gpus.push(gpu);
    // `check_size` refuses a node of so many GPUs.
    u16::try_from(shape.gpus.len() - 1).unwrap_or(u16::MAX)
}

fn publish(shape: &mut NodeShape, one: &Published<'_>, gpu: u16, (share, memory): (GpuShare, Option<Bytes>)) {
    let spec = &one.slice.spec;
    let name = DeviceName {
        driver: Arc::clone(&spec.driver),
        pool: Arc::clone(&spec.pool.name),
        device: Arc::clone(&one.device.name),
    };
    let whole = shape.gpu_memory_capacity(usize::from(gpu).min(shape.gpus.len() - 1));
    let memory = memory.unwrap_or(share.of(whole)).min(whole);
    shape.devices.push(PublishedDevice { name, gpu, share, memory });
}

/// The memory of a GPU of which only a MIG device is published.
fn whole_memory(one: &Published<'_>) -> Bytes {
    let known = one.text("productName").and_then(|product| catalog::gpu_reported(&product, None));
    known.and_then(|model| model.memory).unwrap_or_else(|| {
        let part = u64::from(one.part().get()).max(1);
        Bytes::new(one.memory().unwrap_or(Bytes::ZERO).get().saturating_mul(1000) / part)
    })
}

impl Published<'_> {
    /// An attribute, with or without the driver as its domain.
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        let attributes = &self.device.attributes;
        attributes.get(name).or_else(|| attributes.get(format!("{}/{name}", self.slice.spec.driver).as_str()))
    }

    fn text(&self, name: &str) -> Option<Arc<str>> {
        match self.attribute(name)? {
            Attribute::String(text) => Some(Arc::clone(text)),
            Attribute::Int(_) | Attribute::Bool(_) | Attribute::Version(_) => None,
        }
    }

    fn memory(&self) -> Option<Bytes> {
        let capacity = &self.device.capacity;
        let qualified = format!("{}/memory", self.slice.spec.driver);
        let stated = capacity.get("memory").or_else(|| capacity.get(qualified.as_str()))?;
        u64::try_from(stated.value.value()).ok().map(Bytes::new)
    }

    fn is_partition(&self) -> bool {
        self.text("type").is_some_and(|kind| *kind == *"mig")
    }

    /// What identifies the GPU of a MIG device: its UUID, or else the beginning of the device's name. NVIDIA's driver
    /// names the devices `gpu-1-mig-…` after their parent `gpu-1`.
    fn parent(&self) -> Option<Arc<str>> {
        let of_name = || Some(Arc::from(self.device.name.split_once("-mig-")?.0));
        Some(self.of_driver(&self.text("parentUUID").or_else(of_name)?))
    }

    fn of_driver(&self, key: &str) -> Arc<str> {
        Arc::from(format!("{}/{key}", self.slice.spec.driver))
    }

    /// The part of its GPU that a MIG device is. A profile such as `3g.20gb` has three of the seven slices of compute of
    /// its GPU, or of the four of an A30 (NVIDIA, *Multi-Instance GPU User Guide*).
    fn part(&self) -> GpuShare {
        let profile = self.text("profile");
        let slices = profile.as_deref().and_then(|profile| profile.split_once('g')?.0.parse::<u32>().ok());
        let is_a30 = self.text("productName").is_some_and(|product| product.contains("A30"));
        let all = if is_a30 { 4 } else { 7 };
        GpuShare::new(slices.unwrap_or(1).clamp(1, all) * 1000 / all)
    }

    fn gpu(&self) -> GpuShape {
        let driver = &*self.slice.spec.driver;
        let vendor = match driver.split('.').nth(1) {
            Some("nvidia") => Some(Vendor::Nvidia),
            Some("amd") => Some(Vendor::Amd),
            Some("intel") => Some(Vendor::Intel),
            Some("huawei") => Some(Vendor::Ascend),
            _ => None,
        };
        let product = self.text("productName").or_else(|| self.text("model"));
        let stated = self.memory().filter(|_| !self.is_partition());
        let known =
            product.as_deref().and_then(|name| catalog::gpu_reported(name, stated).or_else(|| catalog::gpu(name)));
        let plain = product.unwrap_or_else(|| Arc::from(driver)).to_ascii_lowercase().replace(' ', "-");
        let model = known.map_or(plain, |model| model.name.to_string());
        let memory = stated.or_else(|| known.and_then(|model| model.memory)).unwrap_or(Bytes::ZERO);
        GpuShape { vendor: vendor.or_else(|| known.map(|model| model.vendor)), ..GpuShape::of(&model, memory) }
    }
}

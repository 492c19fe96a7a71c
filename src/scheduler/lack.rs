//! What a fleet lacks for a demand that can never be placed on it. The texts name the requested values.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use dryrack_catalog::dstack_gpu;
use dryrack_fleet::{GpuShape, NodeShape, Slice};
use dryrack_nearest::hint;
use dryrack_units::Bytes;
use dryrack_workload::{Demand, DemandKind, GpuDemand, GpuTake, Requirements};

/// The requirements that no node meets, each as a clause such as "no node has GPU `a100` (did you mean `a100-80g`?)".
/// If every single requirement is met somewhere, the list is empty. Then no node meets all of them, or the fleet is too
/// small for all tasks together.
///
/// For a job with `resources`, the names of GPUs and the least amounts are checked. For a deployment, nothing is checked.
/// Their other needs depend on more than the shape of a node.
pub fn lacks(demand: &Demand, shapes: &[&NodeShape]) -> Vec<String> {
    let mut lacks = Vec::new();
    let task = match &demand.kind {
        DemandKind::Tasks(task) => task,
        DemandKind::Model(_) => return lacks,
        DemandKind::Sets(sets) => {
            for set in sets.iter().filter(|set| set.min_tasks > 0) {
                let own = self::lacks(&Demand::of(set.task.clone()), shapes);
                lacks.extend(own.into_iter().filter(|lack| !lacks.contains(lack)).collect::<Vec<_>>());
            }
            return lacks;
        }
        DemandKind::Requirements(requirements) => {
            let names = requirements.gpu.as_ref().map_or(&[][..], |gpu| &gpu.names);
            lacks.extend(missing_types(names, shapes, is_of_dstack));
            if lacks.is_empty() {
                lacks.extend(too_large_for_instances(requirements, shapes));
            }
            return lacks;
        }
    };
    // Only jobs with `resources` can use instances of fleets.
    let shapes: Vec<&NodeShape> = shapes.iter().copied().filter(|shape| shape.instance.is_none()).collect();
    if shapes.is_empty() {
        return lacks;
    }
    for (key, value) in &task.labels {
        lacks.extend(missing_label(key, value, &shapes));
    }
    if let Some(os) = task.os.filter(|os| shapes.iter().all(|shape| shape.os != *os)) {
        lacks.push(format!("no node runs the operating system `{os}`"));
    }
    if let Some(arch) = task.arch.filter(|arch| shapes.iter().all(|shape| shape.arch != *arch)) {
        lacks.push(format!("no node has the CPU architecture `{arch}`"));
    }
    if let Some(gpus) = &task.gpus {
        lacks.extend(missing_gpus(gpus, &shapes));
    }
    let cpu = shapes.iter().map(|shape| shape.cpu_capacity()).max();
    lacks.extend(cpu.filter(|most| *most < task.cpu).map(|most| too_large("cores", task.cpu, most)));
    let unrestricted = shapes.iter().map(|shape| shape.cpu_unrestricted()).max().filter(|_| task.gpus.is_none());
    lacks.extend(
        unrestricted
            .filter(|most| *most < task.cpu && cpu.is_some_and(|cpu| cpu >= task.cpu))
            .map(|most| too_large("cores that are not restricted to GPUs", task.cpu, most)),
    );
    let ram = shapes.iter().map(|shape| shape.ram_capacity()).max();
    let ram = ram.filter(|most| *most < task.ram).map(|most| told_apart(task.ram, most));
    lacks.extend(ram.map(|(asked, most)| too_large("of RAM", asked, most)));
    lacks
}

/// The least amounts for each node of a job that no instance and no host has as a whole, such as "no instance or host has 16
/// GPUs `a100-80g`, which one node of the job asks for (at most 8)".
fn too_large_for_instances(wanted: &Requirements, shapes: &[&NodeShape]) -> Vec<String> {
    let wholes: Vec<(&NodeShape, Slice)> =
        shapes.iter().filter_map(|shape| Some((*shape, shape.slice(shape.total_blocks()?)?))).collect();
    let too_large = |what: String, asked: String, most: String| {
        format!("no instance or host has {asked} {what}, which one node of the job asks for (at most {most})")
    };
    let names = wanted.gpu.as_ref().map_or(&[][..], |gpu| &gpu.names);
    let is_of = |gpu: &GpuShape| names.is_empty() || names.iter().any(|name| is_of_dstack(&gpu.model, name));
    let has_type = |shape: &NodeShape| shape.gpus.first().is_some_and(is_of);
    let mut lacks = Vec::new();
    let gpus = wholes.iter().filter(|(shape, _)| has_type(shape)).map(|(_, slice)| slice.gpus).max();
    if let (Some(asked), Some(most)) = (wanted.gpu.as_ref().and_then(|gpu| gpu.count.min), gpus)
        && most < asked
    {
        let kind = if names.is_empty() { String::new() } else { format!(" `{}`", names.join("` or `")) };
        lacks.push(too_large(format!("GPUs{kind}"), asked.to_string(), most.to_string()));
    }
    let cores = wholes.iter().map(|(_, slice)| slice.cpus).max();
    if let (Some(asked), Some(most)) = (wanted.cpu.min, cores)
        && most < asked
    {
        lacks.push(too_large("cores".to_string(), asked.to_string(), most.to_string()));
    }
    let ram = wholes.iter().map(|(_, slice)| slice.ram).max();
    if let (Some(asked), Some(most)) = (wanted.memory.min, ram)
        && most < asked
    {
        let (asked, most) = told_apart(asked, most);
        lacks.push(too_large("of RAM".to_string(), asked, most));
    }
    lacks
}

fn too_large(what: &str, asked: impl Display, most: impl Display) -> String {
    format!("no node has {asked} {what}, which one task asks for (at most {most})")
}

/// Formats two different sizes so that the texts differ. If the readable forms are equal, both are written in bytes.
fn told_apart(one: Bytes, other: Bytes) -> (String, String) {
    let (first, second) = (one.to_string(), other.to_string());
    match first.replace(".0", "") == second.replace(".0", "") {
        true => (format!("{}B", one.get()), format!("{}B", other.get())),
        false => (first, second),
    }
}

fn missing_label(key: &str, value: &str, shapes: &[&NodeShape]) -> Option<String> {
    let values: BTreeSet<&str> =
        shapes.iter().filter_map(|shape| shape.labels.get(key)).map(|value| &**value).collect();
    if values.is_empty() {
        let keys: BTreeSet<&str> = shapes.iter().flat_map(|shape| shape.labels.keys()).map(|key| &**key).collect();
        return Some(with_hint(format!("no node has the label `{key}`"), key, keys));
    }
    (!values.contains(value)).then(|| with_hint(format!("no node has the label `{key}: {value}`"), value, values))
}

fn with_hint<'a>(text: String, word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match hint(word, names) {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}

fn missing_gpus(gpus: &GpuDemand, shapes: &[&NodeShape]) -> Option<String> {
    if let Some(missing) = missing_types(&gpus.models, shapes, |model, name| model == name) {
        return Some(missing);
    }
    let of_type = |gpu: &&GpuShape| gpus.models.is_empty() || gpus.models.contains(&gpu.model);
    let most = shapes.iter().map(|shape| shape.gpus.iter().filter(of_type).count()).max().unwrap_or(0);
    if most == 0 {
        return Some("no node has a GPU".to_string());
    }
    if most < gpus.count as usize {
        let kind = if gpus.models.is_empty() { String::new() } else { format!(" `{}`", gpus.models.join("` or `")) };
        return Some(format!("no node has {} GPUs{kind}, which one task asks for (at most {most})", gpus.count));
    }
    let capacity = |shape: &&NodeShape| {
        let of_type = |index: &usize| of_type(&&shape.gpus[*index]);
        let memory = |index: usize| match gpus.take {
            GpuTake::Memory(_) => shape.gpu_memory_capacity(index),
            GpuTake::Whole | GpuTake::Share(_) => shape.gpus[index].memory,
        };
        (0..shape.gpus.len()).filter(of_type).map(memory).max()
    };
    let asked = match gpus.take {
        GpuTake::Memory(memory) => Some(memory).max(gpus.min_memory),
        GpuTake::Whole | GpuTake::Share(_) => gpus.min_memory,
    };
    let most = shapes.iter().filter_map(capacity).max()?;
    let asked = asked.filter(|asked| most < *asked)?;
    let (asked, most) = told_apart(asked, most);
    Some(format!("no GPU has {asked} of memory (at most {most})"))
}

/// A clause if the fleet has none of the requested models. `is_of` says whether a name means a model.
fn missing_types(names: &[Arc<str>], shapes: &[&NodeShape], is_of: impl Fn(&str, &str) -> bool) -> Option<String> {
    let there: BTreeSet<&str> = shapes.iter().flat_map(|shape| &shape.gpus).map(|gpu| &*gpu.model).collect();
    let first = names.first()?;
    if names.iter().any(|name| there.iter().any(|model| is_of(model, name))) {
        return None;
    }
    Some(with_hint(format!("no node has GPU `{}`", names.join("` or `")), first, there))
}

/// Compares names as dstack does: it ignores case, and it has its own name for a model.
fn is_of_dstack(model: &str, name: &str) -> bool {
    let known = dstack_gpu(model).map(|known| known.name);
    name.eq_ignore_ascii_case(model) || known.is_some_and(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_fleet::{Blocks, Instance};
    use dryrack_ids::FleetId;
    use dryrack_units::MilliCpu;
    use dryrack_workload::{Bounds, GpuRequirements};

    #[test]
    fn dstack_compares_gpus_without_case_and_by_its_own_names() {
        assert!(is_of_dstack("A100", "a100"));
        assert!(!is_of_dstack("A100", "h100"));
        assert!(!is_of_dstack("nobody-s-gpu", "a100"));
    }

    #[test]
    fn what_no_instance_has_as_a_whole_is_named_with_the_most_that_one_has() {
        let shape = |cores, gib, gpus| {
            let instance = Instance {
                fleet: FleetId::new(0),
                blocks: Blocks::Count(1),
                total_blocks: Some(1),
                disk: Bytes::ZERO,
                backend: "remote".into(),
                region: "r".into(),
                spot: false,
                offer: None,
            };
            let gpus = vec![GpuShape::of("a100-80g", Bytes::from_gib(80)); gpus];
            let whole = NodeShape::of(MilliCpu::from_cores(cores), Bytes::from_gib(gib), gpus);
            NodeShape { instance: Some(Arc::new(instance)), ..whole }
        };
        let (small, large) = (shape(16, 64, 4), shape(32, 128, 8));
        let of = |gpus, cores, gib| {
            let gpu = GpuRequirements { count: Bounds::from(gpus), ..GpuRequirements::default() };
            let (cpu, memory) = (Bounds::from(cores), Bounds::from(Bytes::from_gib(gib)));
            let wanted = Requirements { cpu, memory, gpu: Some(gpu), ..Requirements::default() };
            too_large_for_instances(&wanted, &[&small, &large])
        };
        let lack = |what| vec![format!("no instance or host has {what}")];
        assert_eq!(of(8, 32, 128), Vec::<String>::new());
        assert_eq!(of(9, 32, 128), lack("9 GPUs, which one node of the job asks for (at most 8)"));
        assert_eq!(of(8, 33, 128), lack("33 cores, which one node of the job asks for (at most 32)"));
        assert_eq!(of(8, 32, 129), lack("129GiB of RAM, which one node of the job asks for (at most 128GiB)"));
    }
}

//! The resources of a job of Slurm: trackable resources (TRES), and the generic resources (GRES) of releases before 20.11.

use dryrack_units::Bytes;

use super::decimal::Decimal;

pub(super) fn is_unknown(text: &str) -> bool {
    matches!(text, "" | "Unknown" | "None" | "(null)" | "N/A" | "NONE")
}

pub(super) fn known(text: &str) -> Option<&str> {
    if is_unknown(text) { None } else { Some(text) }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) cpus: Option<u32>,
    pub(super) memory: Option<Bytes>,
    pub(super) gpus: u32,
    /// The types of GPUs, if they are recorded.
    pub(super) models: Vec<String>,
    /// Whether there are shards or MPS, which are parts of GPUs.
    pub(super) has_parts: bool,
}

impl Resources {
    fn add_gpus(&mut self, model: &str, count: u32) {
        self.gpus = self.gpus.saturating_add(count);
        if count > 0 && !self.models.iter().any(|known| known == model) {
            self.models.push(model.to_string());
        }
    }
}

/// Parses resources such as `cpu=4,mem=400M,node=4,billing=4,gres/gpu=8,gres/gpu:a100=8`. The error is the part that
/// cannot be read.
pub(super) fn tres(text: &str) -> Result<Resources, &str> {
    let (mut found, mut all) = (Resources::default(), 0);
    for part in known(text).into_iter().flat_map(|text| text.split(',')) {
        let (key, value) = part.split_once('=').ok_or(part)?;
        let number = || value.parse::<u32>().map_err(|_| part);
        match key {
            "cpu" => found.cpus = Some(number()?),
            "mem" => found.memory = Some(memory(value).ok_or(part)?),
            "gres/gpu" => all = number()?,
            _ => match key.strip_prefix("gres/gpu:") {
                Some(model) => found.add_gpus(model, number()?),
                None => found.has_parts |= key.strip_prefix("gres/").is_some_and(is_part_of_gpu) && value != "0",
            },
        }
    }
    found.gpus = found.gpus.max(all);
    Ok(found)
}

/// Parses GPUs such as `gpu:8`, `gpu:a100:4(S:0-1)` or `PER_NODE:gpu:2` of a job on this many nodes. Adds them to
/// `found`. The error is the part that cannot be read.
///
/// A count is that of the whole job: Slurm multiplies it by the number of nodes in both columns (`_get_gres_alloc` and
/// `_fill_in_gres_fields` of `slurmctld/node_scheduler.c`, 17.11). Later releases state a count for each node, with a
/// prefix.
pub(super) fn gres<'t>(text: &'t str, nodes: Option<u32>, found: &mut Resources) -> Result<(), &'t str> {
    let mut rest = known(text).unwrap_or("");
    while !rest.is_empty() {
        // Parts are separated by commas, which a list of devices in parentheses may have too.
        let mut depth = 0;
        let end = rest.find(|letter: char| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            depth == 0 && matches!(letter, ',' | ';')
        });
        let part = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or("", |end| &rest[end + 1..]);
        let named = part.split('(').next().unwrap_or(part);
        let (times, named) = match named.split_once(':') {
            Some(("PER_NODE", named)) => (nodes.unwrap_or(1), named),
            Some(("PER_JOB", named)) => (1, named),
            Some((other, named)) if other.starts_with("PER_") && is_gpu(named) => return Err(part),
            _ => (1, named),
        };
        if !is_gpu(named) {
            found.has_parts |= is_part_of_gpu(named);
            continue;
        }
        let named = named.strip_prefix("gres").map_or(named, |named| &named[1..]);
        let fields: Vec<&str> = named.split(':').skip(1).collect();
        let (model, count) = match fields[..] {
            [] => (None, "1"),
            [count] if count.starts_with(|first: char| first.is_ascii_digit()) => (None, count),
            [model] => (Some(model), "1"),
            [model, count] => (Some(model), count),
            _ => return Err(part),
        };
        let count = count.parse::<u32>().ok().and_then(|count| count.checked_mul(times)).ok_or(part)?;
        match model {
            Some(model) => found.add_gpus(model, count),
            None => found.gpus = found.gpus.saturating_add(count),
        }
    }
    Ok(())
}

/// Whether the generic resource is a GPU. A `sacct` that does not know the plugin of GPUs prints its number.
fn is_gpu(named: &str) -> bool {
    let named = named.strip_prefix("gres:").or(named.strip_prefix("gres/")).unwrap_or(named);
    matches!(named.split(':').next(), Some("gpu" | "7696487"))
}

/// Whether the generic resource is a part of a GPU: a shard, or a part of its MPS. The configuration of the cluster says
/// how many of them are a GPU.
fn is_part_of_gpu(named: &str) -> bool {
    let named = named.strip_prefix("gres:").or(named.strip_prefix("gres/")).unwrap_or(named);
    matches!(named.split(':').next(), Some("shard" | "mps"))
}

/// Parses the memory that a job asks for. Slurm before 21.08 marks memory for each node with `n`, and for each CPU with
/// `c`.
pub(super) fn requested_memory(text: &str, nodes: Option<u32>, cpus: Option<u32>) -> Option<Bytes> {
    let (text, times) = match text.as_bytes().last() {
        Some(b'n') => (&text[..text.len() - 1], nodes),
        Some(b'c') => (&text[..text.len() - 1], cpus),
        _ => (text, None),
    };
    memory(text)?.get().checked_mul(u64::from(times.unwrap_or(1))).map(Bytes::new)
}

/// Parses the memory of the whole job, in units that are powers of 1,024.
fn memory(text: &str) -> Option<Bytes> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "M" => 1 << 20,
        "K" => 1 << 10,
        "G" => 1 << 30,
        "T" => 1 << 40,
        "P" => 1 << 50,
        _ => return None,
    };
    Decimal::parse(digits.as_bytes()).ok()?.scaled(factor).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_resources_are_those_of_the_whole_job() {
        type Read = Result<(u32, &'static [&'static str]), &'static str>;
        let rows: [(&str, Read); 16] = [
            ("", Ok((0, &[]))),
            ("gpu:4", Ok((4, &[]))),
            ("gpu", Ok((1, &[]))),
            ("gpu:a100", Ok((1, &["a100"]))),
            ("gpu:a100:4(S:0-1)", Ok((4, &["a100"]))),
            ("gpu:a100:4(IDX:0-1,3,5),gpu:h100:2", Ok((6, &["a100", "h100"]))),
            ("gres:gpu:a100:2", Ok((2, &["a100"]))),
            ("gres/gpu:2", Ok((2, &[]))),
            ("craynetwork:2,7696487:3", Ok((3, &[]))),
            ("bandwidth:1G", Ok((0, &[]))),
            ("PER_NODE:gpu:a100:3", Ok((6, &["a100"]))),
            ("PER_JOB:gpu:3", Ok((3, &[]))),
            ("PER_TASK:gpu:3", Err("PER_TASK:gpu:3")),
            ("gpu:a100_1g.5gb:1", Ok((1, &["a100_1g.5gb"]))),
            ("gpu:4x", Err("gpu:4x")),
            ("gpu:a100:x(S:0)", Err("gpu:a100:x(S:0)")),
        ];
        for (text, expected) in rows {
            let mut found = Resources::default();
            let read = gres(text, Some(2), &mut found).map(|()| (found.gpus, found.models));
            let expected =
                expected.map(|(gpus, models)| (gpus, models.iter().map(|model| model.to_string()).collect()));
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn gpus_of_several_models_are_added_up() {
        for text in ["gres/gpu:a100=2,gres/gpu:h100=2", "gres/gpu:a100=2,gres/gpu:h100=2,gres/gpu=4"] {
            let found = tres(text).unwrap();
            assert_eq!((found.gpus, found.models), (4, vec!["a100".to_string(), "h100".to_string()]), "{text}");
        }
    }
}

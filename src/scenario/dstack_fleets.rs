//! dstack's files of fleets: fleets of hosts that are reached by SSH, and fleets of cloud instances.
//!
//! A file states how many nodes a fleet has and where they may be, but never their hardware. The scenario states the
//! hardware beside the path: either `machine` for all nodes, or a list of `offers`. Only the offers that the file
//! allows are kept.

use super::dstack_files::{Read, in_seconds, name, taken, warn_of_meaningless};
use dryrack_units::Money;
use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, text, value};

/// Fields of a fleet's configuration, each with the name of the same field of a scenario's fleet.
const FLEET: [(&str, &str); 3] = [("placement", "placement"), ("blocks", "blocks"), ("nodes", "nodes")];
/// Fields about the instances that a cloud creates.
const OF_CLOUDS: [&str; 5] = ["backends", "regions", "spot_policy", "max_price", "idle_duration"];
const MEANINGLESS: [&str; 12] = [
    "env",
    "resources",
    "availability_zones",
    "instance_types",
    "reservation",
    "retry",
    "tags",
    "volumes",
    "backend_options",
    "cpu_options",
    "description",
    "network",
];
const SPOT_POLICIES: [(&str, Option<bool>); 3] = [("on-demand", Some(false)), ("spot", Some(true)), ("auto", None)];

pub(super) fn fleet(read: &Read, report: &mut Report) -> Option<Entry> {
    let (file, beside) = (&read.file, read.beside.as_ref());
    let mut known = vec!["type", "name", "ssh_config"];
    known.extend(FLEET.iter().map(|(key, _)| *key));
    known.extend(OF_CLOUDS);
    known.extend(MEANINGLESS);
    let fields = Fields::read(file, "a fleet of dstack", &known, report)?;
    warn_of_meaningless(file, &MEANINGLESS, report);
    let name = name(&fields, read, report)?;
    let named = name.value.scalar().unwrap_or("").to_string();
    let mut entries: Vec<Entry> = FLEET.iter().filter_map(|(theirs, ours)| taken(file, theirs, ours)).collect();
    let said = |key: &str| beside.and_then(|beside| taken(beside, key, key));
    entries.extend(said("price_per_hour"));
    let key_span = name.value.span;
    match fields.get("ssh_config") {
        Some(ssh) => {
            warn_of_meaningless(file, &OF_CLOUDS, report);
            let Some(machine) = said("machine") else {
                let message =
                    format!("the machine of the hosts of `{named}` is missing; dstack's file cannot state it");
                let help = "write `{file: …, machine: a100-80g-x8}` in the scenario";
                report.error_with_help(fields.place(), message, help);
                return None;
            };
            entries.push(machine);
            entries.push(list("hosts", key_span, ssh_hosts(ssh, report)?));
        }
        None => entries.extend(cloud(&fields, &named, beside, report)?),
    }
    Some(Entry { key: named, key_span, value: Tree { span: file.span, node: Node::Map(entries) } })
}

fn list(key: &str, span: Span, items: Vec<Tree>) -> Entry {
    Entry { key: key.to_string(), key_span: span, value: Tree { span, node: Node::List(items) } }
}

fn scalar(key: &str, span: Span, text: &str) -> Entry {
    let node = Node::Scalar { text: text.to_string(), quoted: false };
    Entry { key: key.to_string(), key_span: span, value: Tree { span, node } }
}

/// Reads `hosts` of `ssh_config`: names, or maps with a name and `blocks`.
fn ssh_hosts(ssh: &Tree, report: &mut Report) -> Option<Vec<Tree>> {
    let known = ["user", "port", "identity_file", "ssh_key", "proxy_jump", "hosts", "network"];
    let fields = Fields::read(ssh, "a configuration of SSH", &known, report)?;
    let mut hosts = Vec::new();
    for item in fields.list("hosts", report) {
        if item.scalar().is_some() {
            let entry = Entry { key: "name".to_string(), key_span: item.span, value: item.clone() };
            hosts.push(Tree { span: item.span, node: Node::Map(vec![entry]) });
            continue;
        }
        let known = ["hostname", "port", "user", "identity_file", "ssh_key", "proxy_jump", "internal_ip", "blocks"];
        let fields = Fields::read(item, "a host reached by SSH", &known, report)?;
        fields.require("hostname", "10.0.0.1", report)?;
        let entries = [("hostname", "name"), ("blocks", "blocks")];
        let entries = entries.iter().filter_map(|(theirs, ours)| taken(item, theirs, ours)).collect();
        hosts.push(Tree { span: item.span, node: Node::Map(entries) });
    }
    Some(hosts)
}

/// The conditions on instances in a fleet's file.
struct Allowed<'f> {
    backends: Vec<&'f str>,
    regions: Vec<&'f str>,
    spot: Option<bool>,
    max_price: Option<Money>,
}

/// Builds a fleet whose instances are created on demand, from its file and from the offers beside its path.
fn cloud(fields: &Fields<'_>, named: &str, beside: Option<&Tree>, report: &mut Report) -> Option<Vec<Entry>> {
    if !fields.has("nodes") {
        let message = format!("`{named}` has neither `ssh_config` nor `nodes`");
        report.error_with_help(fields.place(), message, "add `nodes: 0..2`, or the list of hosts");
        return None;
    }
    let words = |key: &str, report: &mut Report| -> Vec<&str> {
        fields.items(key, "a name", report).into_iter().map(|(word, _)| word).collect()
    };
    // As in dstack 0.22.5, the default allows only on-demand instances.
    let spot = fields.word("spot_policy", "a spot policy", &SPOT_POLICIES, report).unwrap_or(Some(false));
    let max_price = fields.value::<Money>("max_price", report);
    let allowed = Allowed { backends: words("backends", report), regions: words("regions", report), spot, max_price };
    let mut entries = Vec::new();
    let span = fields.place();
    let first = |key: &str, words: &[&str]| words.first().map(|word| scalar(key, span, word));
    entries.extend(first("backend", &allowed.backends));
    entries.extend(first("region", &allowed.regions));
    if allowed.spot == Some(true) {
        entries.push(scalar("spot", span, "true"));
    }
    let idle = fields.get("idle_duration").map(|tree| {
        let mut value = tree.clone();
        in_seconds(&mut value);
        Entry { key: "idle_duration".to_string(), key_span: fields.key_span("idle_duration"), value }
    });
    entries.extend(idle);
    let machine = beside.and_then(|beside| taken(beside, "machine", "machine"));
    let offers = beside.and_then(|beside| taken(beside, "offers", "offers"));
    let offers = match (offers, machine) {
        (Some(offers), machine) => {
            entries.extend(machine);
            kept(offers, &allowed, &entries, named, report)?
        }
        (None, Some(machine)) => {
            let typed = text(&machine.value, "the name of a machine", report)?;
            let offer =
                Tree { span: machine.value.span, node: Node::Map(vec![scalar("name", machine.value.span, typed)]) };
            let offers = list("offers", machine.value.span, vec![offer]);
            entries.push(machine);
            offers
        }
        (None, None) => {
            let message =
                format!("the machine of the instances of `{named}` is missing; dstack's file cannot state it");
            let help =
                "write `{file: …, machine: a100-80g-x8}` in the scenario, or `offers: [{name: a100, machine: …}]`";
            report.error_with_help(fields.place(), message, help);
            return None;
        }
    };
    entries.push(offers);
    Some(entries)
}

/// Keeps the offers that the fleet's file allows, and reports each of the other offers.
fn kept(offers: Entry, allowed: &Allowed<'_>, common: &[Entry], named: &str, report: &mut Report) -> Option<Entry> {
    let Node::List(items) = &offers.value.node else { return Some(offers) };
    let of_all = |key: &str| common.iter().find(|entry| entry.key == key).map(|entry| entry.value.clone());
    let mut kept = Vec::new();
    for item in items {
        let said = |key: &str| item.get(key).cloned().or_else(|| of_all(key));
        let is_one_of = |key: &str, words: &[&str]| {
            words.is_empty() || said(key).is_some_and(|tree| tree.scalar().is_some_and(|word| words.contains(&word)))
        };
        let is_spot = said("spot").is_some_and(|tree| tree.scalar() == Some("true"));
        let price = match said("price_per_hour") {
            Some(tree) if allowed.max_price.is_some() => value::<Money>(&tree, report),
            _ => None,
        };
        let because = [
            (!is_one_of("backend", &allowed.backends), "backends"),
            (!is_one_of("region", &allowed.regions), "regions"),
            (allowed.spot.is_some_and(|spot| spot != is_spot), "spot_policy"),
            (price.zip(allowed.max_price).is_some_and(|(price, most)| price > most), "max_price"),
        ];
        match because.iter().find(|(is_refused, _)| *is_refused) {
            None => kept.push(item.clone()),
            Some((_, key)) => {
                let message = format!("the fleet `{named}` cannot use this offer: its `{key}` excludes it");
                report.warning(item.span, message, "leave the offer out, or change the file of the fleet");
            }
        }
    }
    if kept.is_empty() {
        let message = format!("the file of the fleet `{named}` excludes every offer");
        report.error_with_help(offers.key_span, message, "add an offer that its backends, regions and prices allow");
        return None;
    }
    Some(Entry { value: Tree { span: offers.value.span, node: Node::List(kept) }, ..offers })
}

//! `dryrack offers`: the offers for a job that requires instances, in order, and why other instances offer nothing.

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::output::{Format, print, print_json};
use super::selection::JobArgs;
use dryrack_engine::Selection;
use dryrack_event::Histogram;
use dryrack_report::table;
use dryrack_scheduler::offers::{Availability, Offer, Plan};
use dryrack_scheduler::{Decision, SchedulerOptions};
use dryrack_units::Bytes;

#[derive(Debug, Args)]
pub struct OffersArgs {
    #[command(flatten)]
    asked: JobArgs,
}

pub fn offers(args: &OffersArgs, format: Format) -> ExitResult {
    let of = args.asked.load()?;
    if of.rehearsal.arrivals[of.job.index()].spec.demand.requirements().is_none() {
        let message = format!("error: `{}` has no `resources`; for other jobs, use `dryrack select`\n", args.asked.job);
        return Err(Failure::Input(message));
    }
    let found = guarded(|| asked(&of.rehearsal.profile.scheduler, args.asked.selection(&of)));
    let found = found.map_err(|message| Failure::Ours(format!("internal error: {message}\n")))?;
    match format {
        Format::Human => print(&human(&args.asked.job, &found))?,
        Format::Json => print_json(&as_json(&args.asked.job, &found))?,
    }
    Ok(Exit::Fine)
}

struct PlannedOffers {
    at: Selection,
    plan: Plan,
    /// The names of the instances that the job would take, or why it would take none.
    decision: Result<Vec<String>, Histogram>,
    /// Instances in the plan that make no offer: the name, the reason, and an explanation of the reason.
    others: Vec<(String, &'static str, &'static str)>,
}

fn asked(options: &SchedulerOptions, at: Selection) -> PlannedOffers {
    let fleet = &at.sight.fleet;
    let Some(plan) = at.sight.plan(options) else { panic!("checked before it was asked") };
    let decision = match at.sight.examine(options).decision {
        Decision::Place(candidates) => {
            let claims = candidates[0].placement.claims().iter();
            Ok(claims.map(|claim| fleet.node(claim.node).name.to_string()).collect())
        }
        Decision::Refuse { reasons, .. } => Err(reasons),
    };
    let is_offered = |node| plan.offers.iter().any(|offer: &Offer| offer.node == node);
    let other = |known: &dryrack_scheduler::Selectable| {
        let (name, text) = match known.verdict.reason() {
            Some(reason) => (reason.name(), reason.text()),
            None => ("other_fleet", "in another fleet, or beyond the end of the list"),
        };
        (fleet.node(known.node).name.to_string(), name, text)
    };
    let others = at.nodes.iter().filter(|known| !is_offered(known.node)).map(other).collect();
    PlannedOffers { plan, decision, others, at }
}

fn human(job: &str, found: &PlannedOffers) -> String {
    let fleet = &found.at.sight.fleet;
    let row = |(index, offer): (usize, &Offer)| {
        let node = fleet.node(offer.node);
        let instance = node.shape.instance.as_ref().expect("only instances have offers");
        vec![
            (index + 1).to_string(),
            node.name.to_string(),
            fleet.fleet(offer.fleet).name.to_string(),
            format!("{}/{}", offer.slice.blocks, offer.total_blocks),
            offer.slice.cpus.to_string(),
            offer.slice.ram.to_string(),
            gpus(offer, fleet),
            instance.region.to_string(),
            offer.price.to_string(),
            availability(offer).to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = found.plan.offers.iter().enumerate().map(row).collect();
    let header = ["", "instance", "fleet", "blocks", "cpus", "memory", "gpus", "region", "price", ""];
    let mut text = format!("for {job} at {}\n\n", found.at.at);
    text.push_str(&if rows.is_empty() { "no offers\n".to_string() } else { table(&header, &rows) });
    text.push_str(&match &found.decision {
        Ok(names) => format!("\nit would take: {}\n", names.join(", ")),
        Err(reasons) => format!("\nit would take no offer: {reasons}\n"),
    });
    if !found.others.is_empty() {
        let row =
            |(name, reason, about): &(String, &str, &str)| vec![name.clone(), reason.to_string(), about.to_string()];
        let rows: Vec<Vec<String>> = found.others.iter().map(row).collect();
        text.push('\n');
        text.push_str(&table(&["no offer", "because", ""], &rows));
    }
    text
}

fn gpus(offer: &Offer, fleet: &dryrack_fleet::Fleet) -> String {
    let node = fleet.node(offer.node);
    match (offer.slice.gpus, node.shape.gpus.first()) {
        (0, _) | (_, None) => "-".to_string(),
        (count, Some(gpu)) => format!("{count} x {} {}", gpu.model, offer.slice.gpu_memory),
    }
}

fn availability(offer: &Offer) -> &'static str {
    match offer.availability {
        Availability::Idle => "idle",
        Availability::New => "new",
        Availability::Busy => "busy",
    }
}

fn as_json(job: &str, found: &PlannedOffers) -> Value {
    let fleet = &found.at.sight.fleet;
    let mib = |bytes: Bytes| bytes.get() >> 20;
    let offer = |offer: &Offer| {
        let node = fleet.node(offer.node);
        let instance = node.shape.instance.as_ref().expect("only instances have offers");
        json!({
            "instance": &*node.name,
            "fleet": &*fleet.fleet(offer.fleet).name,
            "blocks": offer.slice.blocks,
            "total_blocks": offer.total_blocks,
            "cpus": offer.slice.cpus,
            "memory_mib": mib(offer.slice.ram),
            "gpus": offer.slice.gpus,
            "gpu": node.shape.gpus.first().filter(|_| offer.slice.gpus > 0).map(|gpu| &*gpu.model),
            "gpu_memory_mib": mib(offer.slice.gpu_memory),
            "backend": &*instance.backend,
            "region": &*instance.region,
            "price": offer.price.to_string(),
            "availability": availability(offer),
        })
    };
    let other = |(name, reason, _): &(String, &str, &str)| json!({"instance": name, "because": reason});
    let (takes, because) = match &found.decision {
        Ok(names) => (Some(names.clone()), None),
        Err(reasons) => {
            (None, Some(reasons.iter().map(|(reason, count)| json!([reason.name(), count])).collect::<Vec<Value>>()))
        }
    };
    json!({
        "job": job,
        "at_seconds": found.at.at.as_secs_f64(),
        "fleet": found.plan.fleet.map(|id| &*fleet.fleet(id).name),
        "offers": found.plan.offers.iter().map(offer).collect::<Vec<Value>>(),
        "takes": takes,
        "because": because,
        "others": found.others.iter().map(other).collect::<Vec<Value>>(),
    })
}

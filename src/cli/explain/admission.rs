//! The part of an explanation that is about Kueue.

use dryrack_control::{AdmissionState, AdmissionView};
use dryrack_engine::Explanation;
use dryrack_event::{Record, RecordBody};
use dryrack_ids::Names;
use dryrack_report::{Filter, record_line};
use serde_json::{Value, json};

/// Why a workload that is not admitted waits, and what it waits behind.
pub fn waiting(explained: &Explanation, names: &Names) -> String {
    let Some(view) = &explained.admission else { return String::new() };
    format!("\n{}\n{}", standing(view, names), decisions(explained, names))
}

/// How a workload was admitted.
pub fn history(explained: &Explanation, names: &Names) -> String {
    match &explained.admission {
        Some(view) => format!("\n{}\n{}", standing(view, names), decisions(explained, names)),
        None => String::new(),
    }
}

/// A line such as `Kueue: waits in team-a (ClusterQueue research), 3rd of 5; before it: a, b`.
fn standing(view: &AdmissionView, names: &Names) -> String {
    let queue = match &view.cluster_queue {
        Some(cluster_queue) => format!("LocalQueue {}, ClusterQueue {cluster_queue}", view.local_queue),
        None => format!("LocalQueue {}", view.local_queue),
    };
    let state = match &view.state {
        AdmissionState::Inadmissible => "is not tried".to_string(),
        AdmissionState::Waiting { place: None, behind: Some(behind), .. } => {
            format!("is not tried: {}", behind.text(names.job(behind.job)))
        }
        AdmissionState::Waiting { place: None, .. } => {
            "did not fit, and is tried again when something changes".to_string()
        }
        AdmissionState::Waiting { place: Some(place), active, parked, ahead, .. } => {
            let ahead: Vec<&str> = ahead.iter().map(|job| names.job(*job)).collect();
            let before = if ahead.is_empty() { String::new() } else { format!("; before it: {}", ahead.join(", ")) };
            let parked = if *parked > 0 { format!(", and {parked} that did not fit") } else { String::new() };
            format!("is number {place} of {active} in the queue{parked}{before}")
        }
        AdmissionState::Admitted => "holds quota".to_string(),
        AdmissionState::Evicting => "must stop and release its quota".to_string(),
        AdmissionState::Over => "has ended".to_string(),
    };
    let mut text = format!("Kueue: its workload {state} ({queue})");
    if let AdmissionState::Waiting { place: Some(_), behind: Some(behind), .. } = &view.state {
        text.push_str(&format!("\n  {}", behind.text(names.job(behind.job))));
    }
    if !view.message.is_empty() {
        text.push_str(&format!("\n  {}: {}", view.because.name(), view.message));
    }
    text
}

/// The last decisions about the workload, one on each line.
fn decisions(explained: &Explanation, names: &Names) -> String {
    let line = |(at, event): &(_, dryrack_event::Event)| {
        let record = Record { step: 0, at: *at, said: RecordBody::Event(event.clone()) };
        let line = record_line(&record, names, &Filter::default()).unwrap_or_default();
        format!("  {}\n", line.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    explained.decisions.iter().map(line).collect()
}

pub fn as_json(explained: &Explanation, names: &Names) -> Value {
    let Some(view) = &explained.admission else { return Value::Null };
    let (state, place, ahead) = match &view.state {
        AdmissionState::Inadmissible => ("inadmissible", None, Vec::new()),
        AdmissionState::Waiting { place, ahead, .. } => {
            ("waiting", *place, ahead.iter().map(|job| names.job(*job)).collect())
        }
        AdmissionState::Admitted => ("admitted", None, Vec::new()),
        AdmissionState::Evicting => ("evicting", None, Vec::new()),
        AdmissionState::Over => ("over", None, Vec::new()),
    };
    json!({
        "workload": &*view.workload,
        "local_queue": &*view.local_queue,
        "cluster_queue": view.cluster_queue.as_deref(),
        "state": state,
        "place": place,
        "ahead": ahead,
        "because": view.because.name(),
        "message": &*view.message,
    })
}

//! What became of the requests to services for language models, in words.

use super::timeline::about;
use dryrack_metrics::{Function, Metrics, OverRequests, RequestSeries, RunAccount, ServiceAccount, Value};
use dryrack_units::{SimDuration, SimTime};

/// All services of a run together. `None` if there are none.
pub(super) fn all_services(accounts: &RunAccount) -> Option<ServiceAccount> {
    let mut all = ServiceAccount::default();
    accounts.services.values().for_each(|service| all.merge(service));
    (!accounts.services.is_empty()).then_some(all)
}

/// A percentile in words. Requests that were never served make it infinite.
fn percentile(all: &ServiceAccount, series: RequestSeries, permille: u16) -> String {
    match all.of(Function::Quantile(permille), series) {
        OverRequests::None => "none".to_string(),
        OverRequests::Finite(time) => shown(time),
        OverRequests::Infinite => "infinite".to_string(),
    }
}

/// A time with three digits if it is below a minute.
pub(super) fn shown(time: SimDuration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        10.0..60.0 => format!("{seconds:.1}s"),
        _ => about(time),
    }
}

/// The sentence about requests that were never served. It comes before the percentiles, so that nobody overlooks it.
pub(super) fn unserved(all: &ServiceAccount) -> Option<String> {
    let (count, total) = (all.unserved(), &all.total);
    if count == 0 {
        return None;
    }
    let mut why = Vec::new();
    if total.waiting > 0 {
        why.push(format!("{} had no first token at the end", thousands(total.waiting)));
    }
    if total.too_large > 0 {
        why.push(format!("{} need more tokens than the KV cache of a replica holds", thousands(total.too_large)));
    }
    let begun = count.saturating_sub(total.waiting + total.too_large);
    if begun > 0 {
        let were = if begun == 1 { "was" } else { "were" };
        why.push(format!("{} {were} being answered at the end", thousands(begun)));
    }
    Some(format!("{} of {} requests were not served: {}", thousands(count), thousands(total.arrived), why.join(", ")))
}

/// Sentences that begin the answer of a run with services. Empty without requests.
pub(super) fn answer(accounts: &RunAccount) -> String {
    let Some(all) = all_services(accounts).filter(|all| all.total.arrived > 0) else { return String::new() };
    let served = unserved(&all).unwrap_or_else(|| format!("All {} were served", requests(&all, accounts)));
    let at = |series| percentile(&all, series, 990);
    let (ttft, tpot) = (at(RequestSeries::Ttft), at(RequestSeries::Tpot));
    format!("{served}. The 99th percentile of the time to first token is {ttft}, and of the time per token {tpot}. ")
}

/// Such as `634 of 1,817 requests, after the warm-up of 20m,`; without a warm-up, only `1,817 requests`.
fn requests(all: &ServiceAccount, accounts: &RunAccount) -> String {
    let arrived = thousands(all.total.arrived);
    match (accounts.warm_up, accounts.requests) {
        (SimTime::ZERO, _) => format!("{arrived} requests"),
        (warm_up, 0) => format!("{arrived} requests after the warm-up of {warm_up}"),
        (warm_up, whole) => format!("{arrived} of {} requests, after the warm-up of {warm_up},", thousands(whole)),
    }
}

/// Lines such as `requests   36,000 arrived, all served` and `TTFT       half 180ms or less, 99% 1.2s or less`.
pub(super) fn lines(accounts: &RunAccount, metrics: &Metrics) -> String {
    let Some(all) = all_services(accounts) else { return String::new() };
    if all.total.arrived == 0 {
        let none =
            if accounts.requests == 0 { "none".to_string() } else { requests(&all, accounts).replace(" requests", "") };
        return format!("requests   {none} arrived\n");
    }
    let served = match all.unserved() {
        0 => "all served".to_string(),
        count => format!("{} not served", thousands(count)),
    };
    let mut text = format!("requests   {} arrived, {served}\n", requests(&all, accounts).replace(" requests", ""));
    if all.total.without_replica > 0 {
        let count = thousands(all.total.without_replica);
        text.push_str(&format!("           {count} arrived while no replica could take them\n"));
    }
    if all.total.repeated > 0 {
        text.push_str(&format!(
            "           {} begun again elsewhere, because their replica stopped or was lost\n",
            thousands(all.total.repeated)
        ));
    }
    for (label, series) in
        [("TTFT", RequestSeries::Ttft), ("TPOT", RequestSeries::Tpot), ("latency", RequestSeries::Latency)]
    {
        let at = |permille| percentile(&all, series, permille);
        text.push_str(&format!("{label:<11}half {} or less, 95% {}, 99% {}\n", at(500), at(950), at(990)));
    }
    let per_second = match metrics.get("output_tokens_per_second") {
        Some(Value::Ratio(rate)) => format!(", {rate:.0} per second"),
        _ => String::new(),
    };
    let price = match metrics.get("cost_per_million_tokens") {
        Some(Value::Money(price)) => format!(", {price} per million"),
        _ => String::new(),
    };
    text.push_str(&format!("tokens     {} of answers{per_second}{price}\n", thousands(all.total.output_tokens)));
    text
}

/// A number with commas: 12,345.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

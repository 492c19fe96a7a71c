//! Tests of profiles: each row changes one sound profile, and states the errors that follow.

use serde_json::{Value, json};

use super::{FlowOptions, GangRule, Profile, ProfileError};
use dryrack_units::{MilliCpu, Permille, SimDuration};
use dryrack_workload::{Backoff, Demand, JobSpec, Restart, RetryPolicy, TaskDemand};

/// A profile like `first-fit`, as data.
fn sound() -> Value {
    let mut data: Value = serde_json::from_str(include_str!("test_profile.json")).expect("JSON");
    data["scheduler"] = serde_json::from_str(include_str!("../scheduler/test_options.json")).expect("JSON");
    data
}

/// The sound profile with these values, each at a path of keys with slashes.
pub(crate) fn with(changes: &[(&str, Value)]) -> Profile {
    let mut data = sound();
    for (path, value) in changes {
        let at = path.split('/').fold(&mut data, |data, key| match key.parse::<usize>() {
            Ok(index) => &mut data[index],
            Err(_) => &mut data[key],
        });
        *at = value.clone();
    }
    Profile::from_data(data).unwrap_or_else(|error| panic!("{changes:?}: {error}"))
}

type Row<'a> = (&'a [(&'a str, Value)], &'a [ProfileError]);

fn check(rows: &[Row<'_>]) {
    for (changes, errors) in rows {
        assert_eq!(with(changes).faults(), *errors, "{changes:?}");
    }
}

/// Filters without one of the built-in ones.
pub(crate) fn filters_without(name: &str) -> Value {
    let all = ["picked", "labels", "ready", "compatible", "resources"];
    all.into_iter().filter(|filter| *filter != name).map(|filter| json!({ "stage": filter })).collect()
}

fn model_filters_without(name: &str) -> Value {
    ["picked", "labels", "ready", "compatible"].into_iter().filter(|filter| *filter != name).collect()
}

fn every(period: &str) -> Value {
    json!({"trigger": {"every": period}, "batch": null, "jitter": "0s"})
}

fn each_after(pause: &str) -> Value {
    json!({"trigger": {"each_after": pause}, "batch": null, "jitter": "0s"})
}

pub(crate) fn polled() -> Value {
    let rounds = json!({"every": "1s", "jitter": "0s", "batch": null});
    json!({"polled": {
        "loops": {"polled": {
            "submitted": {"rounds": rounds, "interval": "4s", "passes": "two_passes"},
            "running": {"rounds": rounds, "starting": "5s", "running": "10s"},
            "terminating": {"rounds": rounds, "interval": "2s", "drains": true},
            "runs": {"rounds": rounds, "hasty": "5s", "interval": "10s", "counts_for_nodes": true},
        }},
        "gang": "whole", "prepare": "at_once", "begin": "all_placed", "placeless": "waits", "no_capacity": "keeps_turn",
        "pauses": ["15s", "1m"], "release": "each", "uncounted": "fewest", "replica_retry": "first_pause",
    }})
}

pub(crate) fn scanned() -> Value {
    json!({"scanned": {
        "every": "3m", "created": "scans_itself", "pending_again": "90s", "stale_after": null, "dated_to": "0s",
        "dead_entries": "removed", "row_ids": "new", "reads": "late", "writes": "checked", "own_claim": "free",
        "unplaced": "released", "restarts_in_place": "10s", "pauses_from": "last_start",
        "scale_down": "oldest_of_the_most_crowded", "packed_scale_down": "works",
    }})
}

#[test]
fn filters_that_keep_a_placement_safe_are_required() {
    use ProfileError::{Exemption, Missing, ModelsWithout, NoReadiness, NoRecheck, Twice};
    let mut twice = filters_without("");
    twice.as_array_mut().expect("a list").push(json!({"stage": "labels"}));
    let exempt = json!({"stage": "ready", "unless": "picked_on_several_nodes"});
    check(&[
        (&[], &[]),
        (&[("scheduler/filters", filters_without("picked"))], &[Missing("picked")]),
        (&[("scheduler/filters", filters_without("labels"))], &[Missing("labels")]),
        (&[("scheduler/filters", filters_without("compatible"))], &[Missing("compatible")]),
        (&[("scheduler/filters", filters_without("resources"))], &[Missing("resources")]),
        (&[("scheduler/filters", filters_without("ready"))], &[NoReadiness]),
        (&[("scheduler/filters", twice.clone())], &[Twice("labels")]),
        (&[("scheduler/filters/2", exempt.clone())], &[Exemption("ready")]),
        (&[("commit/recheck", json!(false))], &[NoRecheck]),
        (
            &[("scheduler/deployments/filters", model_filters_without("ready"))],
            &[ModelsWithout { name: "ready", so: "may use nodes that are not ready" }],
        ),
        (
            &[("scheduler/deployments/filters", json!(["ready"]))],
            &[
                ModelsWithout { name: "picked", so: "may use other GPUs than those that were picked" },
                ModelsWithout { name: "labels", so: "may use nodes without the labels of the selector" },
                ModelsWithout { name: "compatible", so: "may use GPUs on which the backend does not run" },
            ],
        ),
        // A historic profile may lack what the released program lacked.
        (
            &[
                ("historic", json!(true)),
                ("scheduler/filters", filters_without("ready")),
                ("scheduler/deployments/filters", json!([])),
                ("commit/recheck", json!(false)),
            ],
            &[],
        ),
        (&[("historic", json!(true)), ("scheduler/filters/2", exempt)], &[]),
        (&[("historic", json!(true)), ("scheduler/filters", twice)], &[Twice("labels")]),
    ]);
}

#[test]
fn preemption_needs_an_order_that_agrees_with_it() {
    use ProfileError::{PreemptBesideQueue, PreemptOrder, PreemptWithout, QuotasAndPreemption};
    let preempt =
        |rule: &str, order: &[&str]| vec![("scheduler/preempt", json!(rule)), ("scheduler/order", json!(order))];
    let by_priority = |changes: &[(&'static str, Value)]| {
        let mut all = preempt("lower_priority", &["submitted", "priority"]);
        all.extend_from_slice(changes);
        with(&all).faults()
    };
    for (rule, order, is_sound, first) in [
        ("lower_priority", &["priority", "submitted"][..], true, "priority"),
        ("lower_priority", &["submitted", "priority"], true, "priority"),
        ("lower_priority", &["submitted"], false, "priority"),
        ("longer_remaining", &["remaining", "submitted"], true, "remaining"),
        ("longer_remaining", &["submitted", "remaining"], false, "remaining"),
        ("longer_remaining", &["remaining", "priority"], false, "remaining"),
        ("more_attained", &["attained", "joined"], true, "attained, joined"),
        ("more_attained", &["joined", "attained"], false, "attained, joined"),
        ("more_attained", &["attained"], false, "attained, joined"),
    ] {
        let name = match rule {
            "lower_priority" => "lower_priority",
            "longer_remaining" => "longer_remaining",
            _ => "more_attained",
        };
        let errors = if is_sound { vec![] } else { vec![PreemptOrder(name, first)] };
        assert_eq!(with(&preempt(rule, order)).faults(), errors, "{rule} {order:?}");
    }
    let needs_queue = || PreemptWithout("needs passes over one queue");
    assert_eq!(by_priority(&[("passes/place", every("1s"))]), []);
    assert_eq!(by_priority(&[("passes/place", each_after("1s"))]), [needs_queue()]);
    assert_eq!(by_priority(&[("flow", scanned())]), [needs_queue()]);
    assert_eq!(by_priority(&[("scheduler/backfill", json!("easy"))]), []);
    let reserved = || PreemptWithout("has no effect when every job has a reservation");
    assert_eq!(by_priority(&[("scheduler/backfill", json!("conservative"))]), [reserved()]);
    assert_eq!(by_priority(&[("scheduler/backfill", json!("slots"))]), [reserved()]);
    let given = PreemptWithout("frees room that `backfill: rlscheduler` would give to other jobs");
    assert_eq!(by_priority(&[("scheduler/backfill", json!("rlscheduler"))]), [given]);
    let ended = PreemptWithout(
        "stops jobs for one that waits until they have stopped, and `unfit: end` lets none wait: write `unfit: wait`",
    );
    assert_eq!(by_priority(&[("scheduler/unfit", json!("end"))]), [ended]);
    let reads_queue = json!({"filter": "crowd", "unless": "queue.pending > 9", "because": "crowd"});
    let filters = filters_without("").as_array().expect("a list").iter().cloned().chain([reads_queue]).collect();
    assert_eq!(by_priority(&[("scheduler/filters", filters)]), [PreemptBesideQueue("crowd")]);
    let quotas = ("policies/quotas", json!({"ml": {"gpus": 4}}));
    assert_eq!(by_priority(std::slice::from_ref(&quotas)), [QuotasAndPreemption]);
    assert_eq!(with(&[quotas]).faults(), []);
}

#[test]
fn passes_have_what_their_triggers_need() {
    use ProfileError::{BackfillPass, BatchOfEach, NoTime, OffsetOfNoPeriod, Ticks, TimeOfNoPeriod, Zero};
    let place = |key: &str, value: Value, mut pass: Value| {
        pass[key] = value;
        ("passes/place", pass)
    };
    let event = || json!({"trigger": "event", "batch": null, "jitter": "0s"});
    let backfill = |trigger: Value| ("passes/backfill", json!({"trigger": trigger, "jitter": "0s"}));
    let easy = || ("scheduler/backfill", json!("easy"));
    check(&[
        (&[("passes/place", every("1s"))], &[]),
        (&[("passes/place", every("0s"))], &[NoTime("passes.place")]),
        (&[("passes/place", each_after("0s"))], &[NoTime("passes.place")]),
        (&[("passes/analyse", every("0s"))], &[NoTime("passes.analyse")]),
        (&[place("batch", json!(0), every("1s"))], &[Zero("passes.place.batch")]),
        (&[place("batch", json!(1), every("1s"))], &[]),
        (&[place("batch", json!(1), each_after("1s"))], &[BatchOfEach("passes.place")]),
        (&[place("offset", json!("1s"), every("1s"))], &[]),
        (&[place("offset", json!("1s"), event())], &[OffsetOfNoPeriod("passes.place")]),
        (&[place("offset", json!("1s"), each_after("1s"))], &[OffsetOfNoPeriod("passes.place")]),
        (&[place("takes", json!({"least": "1s"}), every("1s"))], &[]),
        (&[place("takes", json!({"least": "1s"}), event())], &[TimeOfNoPeriod("passes.place")]),
        (
            &[(
                "passes/place",
                json!({"trigger": {"every": "1s"}, "batch": null, "jitter": "1s", "takes": {"each": "1s"}}),
            )],
            &[TimeOfNoPeriod("passes.place")],
        ),
        // The backfill pass alone takes time, but then the other pass needs a clock too.
        (
            &[
                easy(),
                ("passes/backfill", json!({"trigger": {"every": "1s"}, "jitter": "0s", "takes": {"least": "1s"}})),
            ],
            &[TimeOfNoPeriod("passes.place")],
        ),
        (&[easy(), backfill(json!({"every": "0s"}))], &[NoTime("passes.backfill")]),
        (&[easy(), backfill(json!("event"))], &[]),
        (&[backfill(json!("event"))], &[BackfillPass("needs `scheduler.backfill`")]),
        (
            &[easy(), backfill(json!("event")), ("passes/place", each_after("1s"))],
            &[BackfillPass("needs passes over one queue")],
        ),
        (&[easy(), backfill(json!("event")), ("flow", scanned())], &[BackfillPass("needs passes over one queue")]),
        (&[("passes/place", every("1s")), ("ticks", json!({"place": ["1s", "2s"]}))], &[]),
        (&[("ticks", json!({"place": ["1s", "2s"]}))], &[TimeOfNoPeriod("passes.place")]),
        (
            &[("passes/place", every("1s")), ("ticks", json!({"place": ["2s", "2s"]}))],
            &[Ticks("are not sorted by time")],
        ),
        (
            &[
                easy(),
                ("passes/place", every("1s")),
                backfill(json!({"every": "1s"})),
                ("ticks", json!({"backfill": ["2s", "1s"]})),
            ],
            &[Ticks("are not sorted by time")],
        ),
        (
            &[("passes/place", every("1s")), ("ticks", json!({"backfill": ["1s"]}))],
            &[Ticks("list backfill passes, but `passes.backfill` is missing")],
        ),
    ]);
}

#[test]
fn numbers_lie_in_their_ranges() {
    use ProfileError::{Levels, LongOrder, ManySamples, NoTime, OverHundred, ShortWindow, Shrinks, Weight, Zero};
    let window = |window: &str, least: &str| {
        [("policies/utilization/time_window", json!(window)), ("policies/utilization/min_time_window", json!(least))]
    };
    let short = ShortWindow { window: SimDuration::from_secs(59), least: SimDuration::from_secs(60) };
    check(&[
        (&[("analysis/concurrency", json!(0))], &[Zero("analysis.concurrency")]),
        (&[("commit/candidates", json!(0))], &[Zero("commit.candidates")]),
        (&[("passes/analyse/batch", json!(0))], &[Zero("passes.analyse.batch")]),
        (
            &[("scheduler/slots", json!({"resolution": "60s", "window": "1d", "depth": 0}))],
            &[Zero("scheduler.slots.depth")],
        ),
        (
            &[("scheduler/slots", json!({"resolution": "0s", "window": "1d", "depth": 500}))],
            &[NoTime("scheduler.slots.resolution")],
        ),
        (&[("retry/first", json!("0s"))], &[NoTime("retry.first")]),
        (&[("retry/factor", json!("100%"))], &[]),
        (&[("retry/factor", json!("99.9%"))], &[Shrinks]),
        (&[("heartbeat/every", json!("0s"))], &[NoTime("heartbeat.every")]),
        (&[("heartbeat/checked_every", json!("0s"))], &[NoTime("heartbeat.checked_every")]),
        (&[("heartbeat/evicted_every", json!("0s"))], &[NoTime("heartbeat.evicted_every")]),
        (&[("heartbeat/evicted_every", json!("1s"))], &[]),
        (&[("scheduler/levels", json!([1, 2, 10]))], &[]),
        (&[("scheduler/levels", json!([0, 2]))], &[Levels]),
        (&[("scheduler/levels", json!([1, 2, 2]))], &[Levels]),
        // Priority is no key of its own.
        (&[("scheduler/order", json!(["tasks", "priority", "submitted"]))], &[]),
        (&[("scheduler/order", json!(["tasks", "estimate", "submitted"]))], &[LongOrder(3)]),
        (&window("60s", "60s"), &[]),
        (&window("59s", "60s"), &[short]),
        (&window("0s", "0s"), &[NoTime("policies.utilization.time_window")]),
        // Two samples more than whole intervals of 10 s fit in a window of 9,999,980 s: exactly a million.
        (&window("9999980s", "0s"), &[]),
        (&window("9999981s", "0s"), &[ManySamples]),
        (&[("policies/utilization/interval", json!("0s"))], &[NoTime("policies.utilization.interval")]),
        (&[("policies/utilization/longest_gap", json!("0s"))], &[NoTime("policies.utilization.longest_gap")]),
        (&[("policies/utilization/min_gpu_utilization", json!("100%"))], &[]),
        (&[("policies/utilization/min_gpu_utilization", json!("100.1%"))], &[OverHundred]),
    ]);
    let mut profile = with(&[("scheduler/scorers", json!([{"stage": "pack", "weight": 1.0}]))]);
    assert_eq!(profile.faults(), []);
    profile.scheduler.scorers[0].weight = f64::INFINITY;
    assert_eq!(profile.faults(), [Weight]);
}

#[test]
fn each_flow_has_its_own_errors() {
    use ProfileError::{
        Empty, HistoricOnly, InstancesWithoutRuns, NoTime, OnlyHistoric, QuotasOfParts, TurnsOfPrepared, Zero,
    };
    let in_flow = |mut flow: Value, path: &str, value: Value| {
        *flow.pointer_mut(path).expect(path) = value;
        let faults = |historic: bool| with(&[("historic", json!(historic)), ("flow", flow.clone())]).faults();
        (faults(false), faults(true))
    };
    let always = |error: ProfileError| (vec![error.clone()], vec![error]);
    for (path, value, error) in [
        ("/polled/pauses/1", json!("0s"), NoTime("flow.polled.pauses")),
        ("/polled/pauses", json!([]), Empty("flow.polled.pauses")),
        (
            "/polled/loops/polled/submitted/rounds/every",
            json!("0s"),
            NoTime("flow.polled.loops.polled.submitted.rounds"),
        ),
        ("/polled/loops/polled/running/rounds/every", json!("0s"), NoTime("flow.polled.loops.polled.running.rounds")),
        (
            "/polled/loops/polled/terminating/rounds/batch",
            json!(0),
            Zero("flow.polled.loops.polled.terminating.rounds"),
        ),
        ("/polled/loops/polled/runs/rounds/batch", json!(0), Zero("flow.polled.loops.polled.runs.rounds")),
    ] {
        assert_eq!(in_flow(polled(), path, value), always(error), "{path}");
    }
    for (path, value, error) in [
        ("/polled/gang", "one_by_one", HistoricOnly("flow.polled.gang", "one_by_one")),
        ("/polled/placeless", "raises", HistoricOnly("flow.polled.placeless", "raises")),
        ("/polled/release", "last_of_round", HistoricOnly("flow.polled.release", "last_of_round")),
        ("/polled/uncounted", "one", HistoricOnly("flow.polled.uncounted", "one")),
    ] {
        assert_eq!(in_flow(polled(), path, json!(value)), (vec![error], vec![]), "{path}");
    }
    for (path, value) in [
        ("/scanned/dead_entries", "computed"),
        ("/scanned/row_ids", "above_highest"),
        ("/scanned/writes", "blind"),
        ("/scanned/own_claim", "counted"),
        ("/scanned/packed_scale_down", "fails"),
        ("/scanned/unplaced", "keeps_node"),
    ] {
        let (now, historic) = in_flow(scanned(), path, json!(value));
        assert!(
            matches!(now[..], [OnlyHistoric(option)] if format!("/{}", option.replace("flow.", "").replace('.', "/")) == path)
        );
        assert_eq!(historic, [], "{path}");
    }
    assert_eq!(in_flow(scanned(), "/scanned/every", json!("0s")), always(NoTime("flow.scanned.every")));
    assert_eq!(in_flow(scanned(), "/scanned/stale_after", json!("0s")), always(NoTime("flow.scanned.stale_after")));
    let in_place = "/scanned/restarts_in_place";
    assert_eq!(in_flow(scanned(), in_place, json!("0s")), always(NoTime("flow.scanned.restarts_in_place")));
    let mut turns = polled();
    turns["polled"]["prepare"] = json!("in_turn");
    assert_eq!(with(&[("flow", turns.clone())]).faults(), []);
    turns["polled"]["begin"] = json!("all_prepared");
    assert_eq!(with(&[("flow", turns)]).faults(), [TurnsOfPrepared]);
    let instances = ("scheduler/offers/new_instances", json!("as_fleet"));
    assert_eq!(with(&[instances.clone(), ("flow", polled())]).faults(), []);
    assert_eq!(with(&[instances]).faults(), [InstancesWithoutRuns]);
    let quotas = ("policies/quotas", json!({"ml": {"gpus": 4}}));
    let mut parts = polled();
    parts["polled"]["gang"] = json!("one_by_one");
    assert_eq!(with(&[quotas.clone(), ("flow", polled())]).faults(), []);
    let historic = ("historic", json!(true));
    assert_eq!(with(&[quotas, ("flow", parts), historic]).faults(), [QuotasOfParts]);
}

#[test]
fn only_a_program_decides_outside() {
    use ProfileError::{Outside, Program};
    let outside = || ("passes/place", json!({"trigger": "outside", "batch": null, "jitter": "0s"}));
    let program = || ("program", json!({"unsafe": "refused"}));
    check(&[
        (&[program(), outside()], &[]),
        (&[program()], &[Program]),
        (&[outside()], &[]),
        (&[outside(), ("flow", scanned())], &[Outside]),
        (&[outside(), program(), ("flow", scanned())], &[Outside]),
    ]);
}

#[test]
fn a_slurm_cluster_needs_a_profile_that_schedules_like_slurm() {
    let slurm = || {
        vec![
            ("slurm", json!({})),
            ("scheduler/discipline", json!("strict")),
            ("scheduler/gangs", json!("neighbours")),
            ("passes/place", every("60s")),
        ]
    };
    let with_more = |more: &[(&'static str, Value)]| {
        let mut all = slurm();
        all.extend_from_slice(more);
        with(&all)
    };
    assert!(with_more(&[]).schedules_like_slurm() && with_more(&[]).faults().is_empty());
    assert!(with_more(&[("scheduler/backfill", json!("slots"))]).schedules_like_slurm());
    for other in [
        ("scheduler/discipline", json!("skipping")),
        ("scheduler/gangs", json!("demand")),
        ("scheduler/preempt", json!("lower_priority")),
        ("scheduler/backfill", json!("easy")),
        ("commit/decision_time", json!("1s")),
        ("passes/place", json!({"trigger": {"every": "60s"}, "batch": 5, "jitter": "0s"})),
        ("passes/place", json!({"trigger": "event", "batch": null, "jitter": "0s"})),
        ("flow", polled()),
    ] {
        let profile = with_more(std::slice::from_ref(&other));
        assert!(!profile.schedules_like_slurm(), "{other:?}");
        let like = ProfileError::Slurm("needs a profile that schedules like Slurm, such as `slurm-22.05`".to_string());
        assert!(profile.faults().contains(&like), "{other:?}");
    }
    let error = |text: &str| vec![ProfileError::Slurm(text.to_string())];
    let quotas = ("policies/quotas", json!({"ml": {"gpus": 4}}));
    let own_limits = "has its own limits for users and accounts: remove `policies.quotas`";
    assert_eq!(with_more(&[quotas]).faults(), error(own_limits));
    let priority = "needs `priority` exactly if `scheduler.order` has `multifactor`";
    let by_multifactor = ("scheduler/order", json!(["multifactor", "submitted"]));
    assert_eq!(with_more(std::slice::from_ref(&by_multifactor)).faults(), error(priority));
    assert_eq!(with_more(&[("slurm", json!({"priority": {}}))]).faults(), error(priority));
    assert_eq!(with_more(&[by_multifactor, ("slurm", json!({"priority": {}}))]).faults(), []);
    let reads_queue = json!({"filter": "crowd", "unless": "queue.pending > 9", "because": "crowd"});
    let filters: Value = filters_without("").as_array().expect("a list").iter().cloned().chain([reads_queue]).collect();
    assert_eq!(with_more(&[("scheduler/filters", filters.clone())]).faults(), []);
    let preempts = ("slurm", json!({"preempt_type": "partition_prio"}));
    let raises = "has `preempt_type`, and the filter `crowd` reads `queue.pending`, which each preempted job raises";
    assert_eq!(with_more(&[("scheduler/filters", filters), preempts.clone()]).faults(), error(raises));
    assert_eq!(with_more(&[preempts]).faults(), []);
}

#[test]
fn kueue_admits_jobs_of_queues_and_pods_but_none_of_slurm() {
    assert!(with(&[]).waits_for_admission());
    assert!(!with(&[("flow", scanned())]).waits_for_admission());
    assert!(!with(&[("flow", polled())]).waits_for_admission());
    assert!(!with(&[("slurm", json!({}))]).waits_for_admission());
}

#[test]
fn a_flow_answers_for_itself() {
    let of = |flow: Value| with(&[("flow", flow)]).flow;
    let one_by_one = |flow: &mut FlowOptions| match flow {
        FlowOptions::Polled(options) => options.gang = GangRule::OneByOne,
        _ => panic!("not polled"),
    };
    let answers = |flow: &FlowOptions| {
        [
            flow.places_runs(),
            flow.requests_instances(),
            flow.has_rows(),
            flow.scans_without_news(),
            flow.restarts_in_place(),
            flow.passes_over_queue(),
            flow.may_go_on_forever(),
            flow.places_parts_of_gangs(),
            flow.places_pods(),
            flow.treats_states_as_taints(),
            flow.decides_by_scheduler(),
        ]
    };
    let marks =
        |flow: &FlowOptions| answers(flow).map(|is_so| if is_so { 'x' } else { '.' }).iter().collect::<String>();
    let mut by_runs = of(polled());
    assert_eq!((by_runs.name(), &*marks(&by_runs)), ("polled", "xx....x...x"));
    one_by_one(&mut by_runs);
    assert_eq!(marks(&by_runs), "xx....xx..x");
    let mut rows = of(scanned());
    assert_eq!((rows.name(), &*marks(&rows)), ("scanned", "..xxx.x...x"));
    if let FlowOptions::Scanned(options) = &mut rows {
        options.restarts_in_place = None;
    }
    assert_eq!(marks(&rows), "..xx..x...x");
    assert_eq!((FlowOptions::Queue.name(), &*marks(&FlowOptions::Queue)), ("queue", ".....x....x"));
}

#[test]
fn older_logs_are_read() {
    let mut data = sound();
    data["scan"] = scanned()["scanned"].clone();
    data["passes"]["backfill"] = json!({"trigger": "event", "batch": null, "jitter": "0s"});
    let profile = Profile::from_data(data).expect("a profile");
    assert_eq!(profile.flow.name(), "scanned");
    assert!(profile.passes.backfill.is_some());
    let mut data = sound();
    data["runs"] = polled()["polled"].clone();
    assert_eq!(Profile::from_data(data).expect("a profile").flow.name(), "polled");
    // What is written is read again as it was.
    for changes in [vec![], vec![("passes/place", every("5s")), ("completing", json!("3s"))], vec![("flow", scanned())]]
    {
        let profile = with(&changes);
        assert_eq!(Profile::from_data(profile.to_data()).expect("a profile"), profile);
    }
    // What equals its default is not written.
    assert_eq!(with(&[]).to_data(), sound());
    let mut data = sound();
    data["passes"]["backfill"] = json!({"trigger": "event", "batch": 4, "jitter": "0s"});
    assert!(Profile::from_data(data).is_err());
}

#[test]
fn a_job_has_its_own_retries_or_those_of_the_profile() {
    let profile = with(&[]);
    let seconds = SimDuration::from_secs;
    let backoff = Backoff { first: seconds(10), factor: Permille::new(2000), max: seconds(300) };
    let spec = |restart: Restart, retry: Option<RetryPolicy>| JobSpec {
        restart,
        retry: retry.map(Box::new),
        ..JobSpec::of("job".into(), Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1))))
    };
    assert_eq!(profile.retry_of(&spec(Restart::Never, None)), RetryPolicy { limit: Some(6), backoff });
    assert_eq!(profile.retry_of(&spec(Restart::Always, None)), RetryPolicy { limit: None, backoff });
    let own = RetryPolicy { limit: Some(2), backoff: Backoff { first: seconds(1), ..backoff } };
    assert_eq!(profile.retry_of(&spec(Restart::Always, Some(own))), own);
}

/// The flow of a profile like `kubernetes-1.35`, with the first and the longest back-off.
pub(crate) fn kubernetes(initial: &str, max: &str) -> Value {
    json!({"kubernetes": {
        "scheduler": {
            "filters": ["NodeResourcesFit"],
            "scorers": {"NodeResourcesFit": 1},
            "scoring_strategy": {"type": "LeastAllocated", "resources": {"cpu": 1, "memory": 1}},
            "balanced_allocation": ["cpu", "memory"],
            "percentage_of_nodes_to_score": 0,
            "hard_pod_affinity_weight": 1,
            "default_constraints": {},
            "preemption": {"min_candidate_nodes_percentage": 10, "min_candidate_nodes_absolute": 100},
        },
        "queue": {
            "initial_backoff": initial, "max_backoff": max, "pop_from_backoff": true, "hints": true,
            "max_unschedulable": "5m",
        },
        "default_toleration": "5m",
    }})
}

#[test]
fn back_offs_of_pods_grow_and_their_waits_end() {
    use ProfileError::{Kubernetes, NoTime};
    let shorter = Kubernetes("the longest back-off is shorter than the first".to_string());
    let flow = |initial, max| vec![("flow", kubernetes(initial, max))];
    let mut no_flush = flow("1s", "10s");
    no_flush.push(("flow/kubernetes/queue/max_unschedulable", json!("0s")));
    let gangs = |timeout: &str| {
        let mut changes = flow("1s", "10s");
        changes.push(("flow/kubernetes/gang_scheduling", json!({"timeout": timeout})));
        changes
    };
    check(&[
        (&flow("1s", "10s"), &[]),
        (&flow("10s", "10s"), &[]),
        (&flow("10s", "9s"), &[shorter]),
        (&no_flush, &[NoTime("flow.kubernetes.queue.max_unschedulable")]),
        (&gangs("1s"), &[]),
        (&gangs("0s"), &[NoTime("flow.kubernetes.gang_scheduling.timeout")]),
    ]);
}

#[test]
fn the_name_of_the_scheduler_is_written_only_if_it_is_not_the_default() {
    let written = |changes: &[(&str, Value)]| {
        let mut all = vec![("flow", kubernetes("1s", "10s"))];
        all.extend_from_slice(changes);
        let profile = with(&all);
        let options = profile.flow.kubernetes().expect("the flow of pods");
        let data = serde_json::to_value(options).expect("data");
        (options.scheduler_name.clone(), data.get("scheduler_name").cloned())
    };
    let stated = |name: &str| written(&[("flow/kubernetes/scheduler_name", json!(name))]);
    assert_eq!(written(&[]), ("default-scheduler".to_string(), None));
    assert_eq!(stated("default-scheduler"), ("default-scheduler".to_string(), None));
    assert_eq!(stated("other"), ("other".to_string(), Some(json!("other"))));
}

//! Fleets of clouds in random worlds, with every state that an instance can go through.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use dryrack_engine::{RunOptions, draw_world, run};
use dryrack_event::{Event, Input, Reason, Sink};
use dryrack_fleet::InstanceState;
use dryrack_lifecycle::is_instance_edge;
use dryrack_profile::load_profile;
use dryrack_units::SimTime;

use crate::cli::{empty, stdout};

trials! {
    Nothing: [
        random_worlds_take_every_edge_of_instances_for_every_reason_that_there_is,
        an_attempt_that_loses_its_spot_instance_is_preempted_under_each_scheduler,
    ]
}

#[derive(Default)]
struct Seen {
    edges: BTreeSet<(InstanceState, InstanceState)>,
    because: BTreeSet<Reason>,
    waited: BTreeSet<Reason>,
}

impl Sink for Seen {
    fn input(&mut self, _step: u64, _at: SimTime, _input: &Input) {}

    fn event(&mut self, _step: u64, _at: SimTime, event: &Event) {
        match event {
            Event::InstanceChanged { from, to, because, .. } => {
                self.edges.insert((*from, *to));
                self.because.insert(*because);
            }
            Event::Held { reasons, .. } => self.waited.extend(reasons.iter().map(|(reason, _)| reason)),
            _ => {}
        }
    }
}

fn random_worlds_take_every_edge_of_instances_for_every_reason_that_there_is() {
    let profile = Arc::new(load_profile("dstack", Path::new("")).expect("it comes with dryrack"));
    let mut seen = Seen::default();
    for seed in 1..=1500 {
        let world = draw_world(seed, std::slice::from_ref(&profile));
        if world.clouds.offers.iter().any(|offers| !offers.is_empty()) {
            run(&world, RunOptions::default(), &mut [&mut seen]);
        }
    }
    for from in InstanceState::ALL {
        for to in InstanceState::ALL {
            assert_eq!(is_instance_edge(from, to), seen.edges.contains(&(from, to)), "{from:?} to {to:?}");
        }
    }
    for reason in [
        Reason::InstanceWanted,
        Reason::FleetMinimum,
        Reason::Provisioned,
        Reason::TakenAway,
        Reason::IdleTooLong,
        Reason::NotNeeded,
        Reason::CapacityTaken,
        Reason::DeadlineExpired,
        Reason::HeartbeatLost,
    ] {
        assert!(seen.because.contains(&reason), "no instance changes because of {reason}");
    }
    for reason in [Reason::FleetFull, Reason::CapacityTaken, Reason::ReuseOnly] {
        assert!(seen.waited.contains(&reason), "nobody waits because of {reason}");
    }
}

/// `train` loses its instance after 90 minutes, once. Outside dstack, its attempt ends before the log says that the instance was
/// taken away.
fn an_attempt_that_loses_its_spot_instance_is_preempted_under_each_scheduler() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/dstack/spot-instance-taken-away.yaml");
    let file = file.display().to_string();
    let dir = empty();
    for profile in ["easy", "first-fit", "dstack"] {
        // Other expectations of the file are about dstack.
        let code = i32::from(profile != "dstack");
        let said = stdout(dir.path(), &["run", &file, "--profile", profile], code);
        assert!(said.contains("ok    taken_away\n") && said.contains("ok    preemptions == 1\n"), "{profile}: {said}");
    }
}

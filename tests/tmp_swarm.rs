use dryrack::{control::Profile, engine::*};
use std::sync::Arc;
fn load(name: &str) -> Profile {
    let read = |n: &str| -> serde_json::Value {
        serde_saphyr::from_str(&std::fs::read_to_string(format!("src/control/profiles/{n}.yaml")).unwrap()).unwrap()
    };
    fn merge(a: &mut serde_json::Value, b: serde_json::Value) {
        match (a, b) {
            (serde_json::Value::Object(a), serde_json::Value::Object(b)) => {
                for (k, v) in b {
                    merge(a.entry(k).or_insert(serde_json::Value::Null), v)
                }
            }
            (a, b) => *a = b,
        }
    }
    fn full(n: &str, read: &dyn Fn(&str) -> serde_json::Value) -> serde_json::Value {
        let mut v = read(n);
        let base = v.as_object_mut().unwrap().remove("base");
        match base {
            Some(b) => {
                let mut base = full(b.as_str().unwrap(), read);
                merge(&mut base, v);
                base
            }
            None => v,
        }
    }
    serde_json::from_value(full(name, &read)).unwrap()
}
#[test]
fn swarm() {
    let profiles: Vec<Arc<Profile>> =
        ["first-fit", "best-fit", "spread", "pack", "fifo", "fifo-skipping", "gpustack-0.5-dev"]
            .iter()
            .map(|n| Arc::new(load(n)))
            .collect();
    for p in &profiles {
        assert!(p.faults().is_empty(), "{:?}", p.faults());
    }
    let n: u64 = std::env::var("N").map_or(300, |n| n.parse().unwrap());
    let from: u64 = std::env::var("FROM").map_or(0, |n| n.parse().unwrap());
    let mut tot = (0, 0);
    let mut acc = std::collections::BTreeMap::new();
    for seed in from..from + n {
        let p = Progress::default();
        let r = std::panic::catch_unwind(|| run_world(seed, &profiles, &p));
        match r {
            Ok(r) => {
                tot.0 += r.records;
                tot.1 += 1;
                let a = r.accounts;
                for (k, v) in [
                    ("sub", a.submitted),
                    ("ended", a.ended),
                    ("never", a.never_fits),
                    ("exp", a.expired),
                    ("run", a.running),
                    ("wait", a.waiting),
                ] {
                    *acc.entry(k).or_insert(0) += v;
                }
            }
            Err(_) => {
                panic!("seed {seed} step {} at {}", p.step(), p.at())
            }
        }
    }
    println!("{tot:?} {acc:?}");
}
struct P(u64);
impl dryrack::event::Sink for P {
    fn input(&mut self, step: u64, at: dryrack::units::SimTime, input: &dryrack::event::Input) {
        self.0 += 1;
        if step > std::env::var("AFTER").map_or(0, |n| n.parse().unwrap()) {
            println!("{step} {at} I {input:?}");
        }
        if self.0 > 3000 {
            std::process::exit(0)
        }
    }
    fn event(&mut self, step: u64, at: dryrack::units::SimTime, e: &dryrack::event::Event) {
        self.0 += 1;
        if step > std::env::var("AFTER").map_or(0, |n| n.parse().unwrap()) {
            println!("{step} {at} E {e:?}");
        }
    }
}
#[test]
fn show() {
    let Ok(seed) = std::env::var("SHOW") else { return };
    let profiles: Vec<Arc<Profile>> =
        ["first-fit", "best-fit", "spread", "pack", "fifo", "fifo-skipping", "gpustack-0.5-dev"]
            .iter()
            .map(|n| Arc::new(load(n)))
            .collect();
    let w = draw_world(seed.parse().unwrap(), &profiles);
    println!("{:?}\n{:?}", w.profile.passes, w.profile.commit);
    let opts = RunOptions {
        grouping: if std::env::var("PLAIN").is_ok() {
            dryrack::scheduler::Grouping::EachNode
        } else {
            dryrack::scheduler::Grouping::Classes
        },
        ..Default::default()
    };
    run(&w, opts, &mut [&mut P(0)]);
}

use super::*;
use dryrack_rng::Stream;

const GIB: u64 = 1 << 30;

fn node(name: &str, gpus: &[(GpuKind, u64)], unified: bool) -> ServingNode {
    let gpu = |(index, (kind, gib)): (usize, &(GpuKind, u64))| ServingGpu {
        index: index as u32,
        kind: *kind,
        total: gib * GIB,
    };
    ServingNode {
        name: name.into(),
        labels: Arc::default(),
        state: NodeState::Ready,
        ram: 256 * GIB,
        unified,
        reserved_ram: 2 * GIB,
        reserved_memory: GIB,
        gpus: gpus.iter().enumerate().map(gpu).collect(),
        shape: None,
    }
}

fn part(node: usize, claims: &[(u32, u64)], ram: u64) -> Part {
    let claims: SmallVec<[(u32, u64); 8]> = claims.iter().map(|(index, gib)| (*index, gib * GIB)).collect();
    Part { node: Some(node), indexes: claims.iter().map(|(index, _)| *index).collect(), claims, ram: ram * GIB }
}

fn instance(kind: GpuKind, main: Part, subordinates: &[Part]) -> ServedInstance {
    ServedInstance {
        model: ModelKey(1),
        model_name: "m".into(),
        backend: "vllm".into(),
        kind: Some(kind),
        is_distributed: !subordinates.is_empty(),
        main: Some(main),
        subordinates: subordinates.iter().cloned().collect(),
    }
}

/// Calculated by hand. Of 80 GiB, the system reserves 1 GiB, and 5 GiB are in use by other programs. Of two instances,
/// one holds 10 GiB as its main part, and the other, which states another kind, holds 20 GiB as a subordinate part.
#[test]
fn each_accounting_counts_what_it_says() {
    let mut serving = Serving::default();
    serving.add(node("a", &[(GpuKind::Cuda, 80)], false));
    serving.add(node("b", &[(GpuKind::Rocm, 24)], false));
    serving.host(instance(GpuKind::Cuda, part(0, &[(0, 10)], 0), &[]));
    serving.host(instance(GpuKind::Rocm, part(1, &[(0, 12)], 0), &[part(0, &[(0, 20)], 0)]));
    let strangers = GpuStanding { foreign: 5 * GIB, ..GpuStanding::IDLE };
    serving.set_others(0, Reliance::default(), 0, [strangers].into_iter());
    let free = |accounting| serving.columns().left(accounting).free[0] / GIB;
    assert_eq!(free(Accounting::MainParts), 69);
    assert_eq!(free(Accounting::AllParts), 49);
    assert_eq!(free(Accounting::PartsByKind), 69);
    assert_eq!(free(Accounting::Ledger), 44);
    assert_eq!((serving.hosts()[0].main_count, serving.hosts()[0].subordinate_count), (1, 1));
}

/// Calculated by hand. Of 256 GiB of RAM, 2 and 1 GiB are reserved, 10 GiB are held as RAM, and 40 GiB as GPU memory.
/// So 203 GiB of RAM are left, but only 159 of the GPU's own 200 GiB.
#[test]
fn unified_memory_is_taken_from_ram() {
    let mut serving = Serving::default();
    serving.add(node("studio", &[(GpuKind::Mps, 200)], true));
    serving.host(instance(GpuKind::Mps, part(0, &[(0, 40)], 10), &[]));
    assert_eq!(serving.columns().left(Accounting::MainParts).free[0], 159 * GIB);
    serving.set_others(0, Reliance::default(), 150 * GIB, [GpuStanding::IDLE].into_iter());
    assert_eq!(serving.columns().left(Accounting::MainParts).free[0], 53 * GIB);
    // The ledger's RAM: 256 - 2 - 10 - 150 - 40.
    assert_eq!(serving.hosts()[0].ram_free, 54 * GIB);
}

#[test]
fn what_is_kept_current_is_what_is_computed_anew() {
    let mut draws = Stream::new(5, "serving", 0);
    let kinds = [GpuKind::Cuda, GpuKind::Rocm];
    let mut serving = Serving::default();
    for name in 0..6 {
        let gpus: Vec<(GpuKind, u64)> =
            (0..draws.between(0, 8)).map(|_| (*draws.pick(&kinds), draws.between(8, 80))).collect();
        serving.add(node(&name.to_string(), &gpus, draws.chance(200)));
    }
    let mut live: Vec<(usize, Vec<usize>)> = Vec::new();
    for _ in 0..2000 {
        if draws.chance(550) || live.is_empty() {
            let mut draw_part = |node| {
                let claims: Vec<(u32, u64)> =
                    (0..draws.between(0, 4)).map(|_| (draws.between(0, 9) as u32, draws.between(0, 40))).collect();
                part(node, &claims, draws.between(0, 4))
            };
            let drawn = instance(kinds[0], draw_part(2), &[draw_part(0), draw_part(5)]);
            live.push((serving.host(drawn), vec![0, 2, 5]));
        } else {
            let at = draws.index(live.len());
            let (number, nodes) = &mut live[at];
            let node = nodes.remove(draws.index(nodes.len()));
            serving.leave(*number, node);
            if nodes.is_empty() {
                live.remove(at);
            }
        }
        assert!(serving == serving.rebuilt());
    }
}

"""Draws running jobs with a utilization policy and the samples of their GPUs. One JSON object to a line, no answers.

    python3 draw.py --seed 1 --cases 200 > cases.jsonl

The format is that of tests/data/dstack/utilization.jsonl.gz.
"""

import argparse
import json
import random

EVERY_S = 4


def steady(rng, low):
    """Samples of one distance, with a little jitter or none."""
    return {"first": rng.choice([0, 1, 5, 10, 15]) * 1000, "every": rng.choice([5, 7, 10, 10, 10, 15, 20, 29, 30]) * 1000,
            "jitter": rng.choice([0, 0, 1, 900]), "level": lambda _at, _gpu: rng.randrange(low + 1)}


def times(rng, plan, until):
    found, at = [], plan["first"]
    while at <= until:
        found.append(at)
        at += max(1, plan["every"] + (rng.randint(-plan["jitter"], plan["jitter"]) if plan["jitter"] else 0))
    return found


def idle(minimum):
    return max(0, minimum - 1)


def case(rng, number):
    kind = rng.choice(sorted(KINDS))
    minimum = rng.choice([0, 1, 5, 10, 20, 30, 49, 50, 51, 70, 90, 100, rng.randint(1, 99)])
    window = rng.choice([300, 300, 301, 360, 420, 600, 900, 1200, 3600, rng.randint(300, 1500)])
    horizon = int(window * rng.choice([1.1, 1.5, 2.0, 2.5])) // EVERY_S * EVERY_S
    gpus = rng.choice([1, 1, 2, 2, 4, 8])
    samples = KINDS[kind](rng, minimum, window, horizon, gpus)
    return {
        "id": f"w{number:04}", "kind": kind, "min_gpu_utilization": minimum, "time_window_s": window,
        "horizon_s": horizon, "eval_every_s": EVERY_S, "samples_ms": samples,
    }


def plain(rng, minimum, _window, horizon, gpus):
    plan = steady(rng, idle(minimum))
    return [[at, [plan["level"](at, gpu) for gpu in range(gpus)]] for at in times(rng, plan, horizon * 1000)]


def const(rng, minimum, window, horizon, gpus):
    level = min(100, max(0, minimum + rng.choice([-1, -1, 0, 1])))
    return [[at, [level] * gpus] for at, _ in plain(rng, minimum, window, horizon, gpus)]


def noise(rng, minimum, window, horizon, gpus):
    part = rng.choice([0.0, 0.002, 0.01, 0.05, 0.5])
    busy = [minimum, 100]
    return [
        [at, [rng.choice(busy) if rng.random() < part else level for level in levels]]
        for at, levels in plain(rng, minimum, window, horizon, gpus)
    ]


def spikes(rng, minimum, window, horizon, gpus):
    """One busy sample, about where a window begins or ends."""
    found = plain(rng, minimum, window, horizon, gpus)
    for _ in range(rng.randint(1, 3)):
        at = rng.choice([0, 60, 120, window, window - 60, window + 60]) * 1000
        nearest = min(range(len(found)), key=lambda index: abs(found[index][0] - at))
        found[nearest][1] = [100] * gpus
    return found


def gap(rng, minimum, window, horizon, gpus):
    begin = rng.randint(0, horizon) * 1000
    end = begin + rng.choice([30, 61, 120, window, window + 10]) * 1000
    return [sample for sample in plain(rng, minimum, window, horizon, gpus) if not begin <= sample[0] < end]


def late(rng, minimum, window, horizon, gpus):
    begin = rng.choice([30, 59, 60, 61, 90, 200]) * 1000
    return [sample for sample in plain(rng, minimum, window, horizon, gpus) if sample[0] >= begin]


def silent(rng, minimum, window, horizon, gpus):
    kept = rng.randint(1, 6)
    found = plain(rng, minimum, window, horizon, gpus)
    back = [sample for sample in found if sample[0] >= (window + rng.randint(-60, 60)) * 1000]
    return found[:kept] + [sample for sample in back[:rng.choice([0, 1, 3])] if sample[0] > found[:kept][-1][0]]


def coarse(rng, minimum, _window, horizon, gpus):
    plan = {**steady(rng, idle(minimum)), "every": rng.randint(31, 95) * 1000}
    return [[at, [plan["level"](at, gpu) for gpu in range(gpus)]] for at in times(rng, plan, horizon * 1000)]


def one_idle(rng, minimum, window, horizon, gpus):
    which = rng.randrange(gpus)
    found = plain(rng, minimum, window, horizon, gpus)
    return [[at, [level if gpu == which else 100 for gpu, level in enumerate(levels)]] for at, levels in found]


def phases(rng, minimum, window, horizon, gpus):
    length = rng.randint(30, 2 * window) * 1000
    found = plain(rng, minimum, window, horizon, gpus)
    return [[at, levels if at // length % 2 else [rng.choice([minimum, 100])] * gpus] for at, levels in found]


def edge(rng, minimum, window, horizon, gpus):
    """First samples about the first minute of a window."""
    first = sorted({rng.choice([0, 1000, 4000, 59_999, 60_000, 60_001, 61_000, 64_000]) for _ in range(3)})
    found = [sample for sample in plain(rng, minimum, window, horizon, gpus) if sample[0] > 90_000]
    return [[at, [rng.choice([0, idle(minimum), 100])] * gpus] for at in first] + found


def bursts(rng, minimum, window, horizon, gpus):
    found, at = [], rng.randint(0, 30) * 1000
    while at <= horizon * 1000:
        for _ in range(rng.randint(1, 6)):
            found.append([at, [rng.randrange(idle(minimum) + 1) for _ in range(gpus)]])
            at += rng.choice([5, 10]) * 1000
        at += rng.choice([20, 45, 60, 85]) * 1000
    return found


def other_gpus(rng, minimum, window, horizon, gpus):
    """A few samples are of another number of GPUs."""
    found = plain(rng, minimum, window, horizon, gpus)
    for sample in rng.sample(found, k=min(len(found), rng.randint(1, 3))):
        sample[1] = [0] * rng.choice([0, max(0, gpus - 1), gpus + 1])
    return found


def other_memory(rng, minimum, window, horizon, gpus):
    """A few samples have memory of another number of GPUs."""
    found = plain(rng, minimum, window, horizon, gpus)
    for sample in rng.sample(found, k=min(len(found), rng.randint(1, 3))):
        sample.append(rng.choice([0, gpus - 1 or 2, gpus + 1]))
    return found


KINDS = {
    "const": const, "noise": noise, "spikes": spikes, "gap": gap, "late": late, "silent": silent, "coarse": coarse,
    "one_idle": one_idle, "phases": phases, "edge": edge, "bursts": bursts, "other_gpus": other_gpus,
    "other_memory": other_memory,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=200)
    args = parser.parse_args()
    for number in range(args.cases):
        # Each case has draws of its own: one more moves no other's.
        print(json.dumps(case(random.Random(f"utilization/{args.seed}/{number}"), number)))


if __name__ == "__main__":
    main()

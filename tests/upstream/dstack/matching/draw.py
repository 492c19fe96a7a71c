"""Draws matching cases: fleets of hosts, some of their blocks busy, and a run. One JSON object to a line, no answers.

    python3 draw.py --seed 1 --cases 500 > cases.jsonl

The format is that of tests/data/dstack/matching.jsonl.gz. Disks are all of different sizes: a host is known by its disk.
"""

import argparse
import json
import random

# Name, MiB as a driver reports them: of each both lists of sizes know, only the newer, or neither.
GPUS = [
    ("H100", 81559), ("A100", 81920), ("A100", 40960), ("A10", 23028), ("L4", 23034), ("T4", 15360), ("L40S", 46068),
    ("H200", 143771), ("B200", 183359), ("RTX4090", 24564), ("RTX4080", 16376), ("V100", 32510), ("NVIDIA A10G", 23028),
    ("Tesla T4", 15360), ("NVIDIA GeForce RTX 3060", 12288), ("Z9000", 10752), ("Z9000", 11776),
]
KINDS = ["alike", "mixed", "odd_blocks", "busy", "several", "several_any", "several_busy", "two_fleets", "bounds", "gpus", "no_gpus"]


def host(rng, kind, name, disk_mib):
    gpus = 0 if kind == "no_gpus" else rng.choice([0, 1, 2, 4, 4, 8, 8])
    cpus = rng.choice([2, 4, 8, 12, 16, 32, 48, 64, 128])
    memory = rng.choice([8192, 16347, 32768, 65023, 131072, 262144, 523775, 524251])
    if kind == "odd_blocks":
        blocks = rng.choice(["auto", 3, 5, 7, 8, 16, 1])
    else:
        blocks = rng.choice(["auto", "auto", 1, 1, 2, 4, 8])
    found = {
        "name": name, "cpus": cpus, "memory_mib": memory, "disk_mib": disk_mib, "gpus": gpus, "blocks": blocks,
        "busy_fraction": rng.choice([0.0, 0.25, 0.5, 0.9, 1.0]) if kind.endswith("busy") else rng.choice([0.0] * 9 + [0.5]),
    }
    if gpus:
        found["gpu_name"], found["gpu_memory_mib"] = rng.choice(GPUS)
    return found


def bounds(rng, low, high, unit=""):
    """A range somewhere in low..high in one of the forms that are understood."""
    a, b = sorted((rng.randint(low, high), rng.randint(low, high)))
    return rng.choice([f"{a}{unit}..", f"{a}{unit}..", f"{a}{unit}..{b}{unit}", f"..{b}{unit}", f"{a}{unit}" if unit else a])


def gpu(rng, kind, hosts):
    counts = [0, "0..", "0..1", 1, "1..", "1..2", 2, "2..", "4..", "1..8", 4, 8, "..2"]
    form = rng.randint(0, 3 if kind != "gpus" else 6)
    if form < 3:
        return rng.choice(counts)
    spec = {"count": rng.choice(counts[1:])} if rng.random() < 0.8 else {}
    names = [h["gpu_name"] for h in hosts if h.get("gpu_name")] + ["A100", "H100", "T4"]
    if rng.random() < 0.5:
        spec["name"] = rng.sample(sorted(set(names)), k=min(len(set(names)), rng.randint(1, 2)))
        # Runs name GPUs as they are after they were shortened.
        spec["name"] = [name.replace("NVIDIA ", "").replace("Tesla ", "").replace("GeForce RTX 3060", "RTX3060") for name in spec["name"]]
        if rng.random() < 0.3:
            spec["name"] = [name.lower() for name in spec["name"]]
    if rng.random() < 0.4:
        spec["memory"] = rng.choice(["16GB..", "24GB..", "40GB..80GB", "..24GB", "80GB", "0.5TB.."])
    if rng.random() < 0.2:
        spec["total_memory"] = rng.choice(["40GB..", "..160GB", "80GB..640GB"])
    if rng.random() < 0.1:
        spec["compute_capability"] = rng.choice(["7.5", "8.0", "8.9", "9.0"])
    return spec or rng.choice(counts)


def case(rng, number):
    kind = rng.choice(KINDS)
    fleets, disk = [], 50_000 + 997 * rng.randint(0, 50)
    for index in range(2 if kind == "two_fleets" else rng.choice([1, 1, 1, 2])):
        hosts, same = [], None
        for place in range(rng.randint(1, 5)):
            disk += rng.choice([1, 1, 1, 50_000, 400_000])
            found = host(rng, kind, f"f{index}-h{place}", disk)
            if kind == "alike":
                same = same or found
                found = {**same, "name": found["name"], "disk_mib": disk}
            hosts.append(found)
        placement = "cluster" if kind in ("several", "several_busy") and rng.random() < 0.9 else rng.choice(["any", "cluster"])
        if kind == "several_any":
            placement = "any"
        fleets.append({"name": f"fleet-{index}", "placement": placement, "hosts": hosts})
    hosts = [found for fleet in fleets for found in fleet["hosts"]]
    tight = kind == "bounds"
    resources = {
        "cpu": bounds(rng, 1, 64) if tight else rng.choice(["1..", "2..", "4..", "8..16", "1..32", 16, "..8"]),
        "memory": bounds(rng, 1, 256, "GB") if tight else rng.choice(["1GB..", "8GB..", "8192MB..", "16GB..64GB", "0.5GB..", "..128GB"]),
        "disk": rng.choice(["1GB..", "1GB..", "100GB..", "1GB..600GB", "50..", "10GB.."]),
        "gpu": gpu(rng, kind, hosts),
    }
    nodes = rng.randint(2, 4) if kind.startswith("several") or rng.random() < 0.1 else 1
    run = {"nodes": nodes, "resources": resources, "creation_policy": "reuse"}
    if kind == "two_fleets" and rng.random() < 0.4:
        run["fleets"] = [rng.choice(["fleet-0", "fleet-1"])]
    return {"id": f"d{number:04}", "kind": kind, "fleets": fleets, "run": run}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=500)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    for number in range(args.cases):
        print(json.dumps(case(rng, number)))


if __name__ == "__main__":
    main()

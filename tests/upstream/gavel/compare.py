#!/usr/bin/env python3
"""Compares the policies of examples/outside/gavel.py with published results of Gavel (OSDI 2020).

    DRYRACK_DATA=... PYTHON tests/upstream/gavel/compare.py [DRYRACK]      (20 minutes on two cores)

PYTHON needs `pip install ecos scipy`. DRYRACK is target/release/dryrack if it is not named. The command draws the jobs of
Gavel's continuous experiments, runs them on 36 V100s, 36 P100s and 36 K80s, and prints the mean time from submission to
completion of jobs 4000 to 4999. The means of six experiments are published (EXPERIMENTS.md of stanford-futuredata/gavel);
the command ends with 1 if one of them differs by more than 0.05 %. For higher loads, only curves are published, and a
sentence: "improve average job completion time by up to 3.5x".
"""

import concurrent.futures
import csv
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DATA = pathlib.Path(os.environ["DRYRACK_DATA"]).resolve()
PROGRAM = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/dryrack").resolve()
TABLE = "simulation_throughputs.json"

# The kinds of jobs with their batch sizes, in the order in which Gavel draws from them.
KINDS = [f"{name} (batch size {size})" for name, sizes in [
    ("ResNet-18", (16, 32, 64, 128, 256)), ("ResNet-50", (16, 32, 64, 128)), ("Transformer", (16, 32, 64, 128, 256)),
    ("LM", (5, 10, 20, 40, 80)), ("Recommendation", (512, 1024, 2048, 4096, 8192))] for size in sizes]
KINDS += ["A3C", "CycleGAN"]

# Policy, seed, seconds between two submissions on average, and the published mean in seconds.
PUBLISHED = [("allox", 42, 9000, 59492.106756), ("allox", 1234, 9000, 64494.582453), ("allox", 15, 9000, 54834.129989),
             ("allox", 42, 4500, 59770.441018), ("allox", 1234, 4500, 64695.450528), ("allox", 15, 4500, 55072.401336)]
# Submissions an hour under the least attained service, without and with the speeds of jobs.
LOADS = [2.0, 4.0, 5.0]


def draw(seed, gap, jobs, table):
    """The lines of the trace. Three draws make a job: one that is unused without gangs, its duration on a V100, its kind."""
    kinds, gaps, at = random.Random(seed + 2), random.Random(seed + 3), 0.0
    for _ in range(jobs):
        kinds.random()
        is_long = kinds.random() >= 0.8
        duration = 60 * 10 ** (kinds.uniform(3, 4) if is_long else kinds.uniform(1.5, 3))
        kind = kinds.choice(KINDS)
        steps = int(duration * table["v100"][f"('{kind}', 1)"]["null"])
        yield f"{kind}\trun\t--steps\t1\t{steps}\t{at:.9f}\t1\n"
        at -= math.log(1 - gaps.random()) * gap


def scenario(policy, seed):
    command = json.dumps([sys.executable, str(ROOT / "examples/outside/gavel.py")])
    fleet = [("v", "v100-16g", ""), ("p", "p100-16g", ""), ("k", "k80", ", memory: 12GiB")]
    nodes = "".join(f"  - {{name: {name}, count: 36, cpus: 8, ram: 64GiB, gpus: [{{type: {gpu}, count: 1{more}}}]}}\n"
                    for name, gpu, more in fleet)
    return (f"scenario: Gavel's continuous experiment\nnodes:\n{nodes}"
            "speed: {reference: v100-16g, work: measured}\n"
            "trace: {format: gavel, file: list.trace, estimates: exact, checkpoint: {}}\n"
            f"outside: {{command: {command}, driver: {{policy: {policy}, seed: {seed}, "
            "order: [v100-16g, p100-16g, k80]}}\nexpect: [jobs_completed >= 5000]\n")


def mean_completion(folder, policy, seed, gap, table):
    """In seconds, of jobs 4000 to 4999."""
    folder = folder / f"{policy}-{seed}-{gap:.0f}"
    folder.mkdir()
    (folder / TABLE).write_text(json.dumps(table))
    # Further jobs keep the machines busy while the last of the 1,000 end.
    later = 3000 if gap < 900 else 1000
    (folder / "list.trace").write_text("".join(draw(seed, gap, 5000 + later, table)))
    (folder / "run.yaml").write_text(scenario(policy, seed))
    args = [PROGRAM, "run", "run.yaml", "--out", "out"]
    ran = subprocess.run(args, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(ran.stdout + ran.stderr)
    with open(folder / "out/jobs.csv", newline="") as file:
        rows = {int(row["job"]): float(row["end"]) - float(row["submit"]) for row in csv.DictReader(file)}
    return statistics.mean(rows[job] for job in range(4000, 5000))


def main():
    with tarfile.open(DATA / "traces/gavel-traces/gavel-traces.tar.gz") as archive:
        table = json.load(archive.extractfile(TABLE))
    loaded = [(policy, 0, 3600 / load, None) for load in LOADS for policy in ("las", "gavel")]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = PUBLISHED + loaded
        means = list(pool.map(lambda run: mean_completion(pathlib.Path(folder), *run[:3], table), asked))
    differs = 0
    print("policy  seed  jobs/h      mean     published")
    for (policy, seed, gap, published), mean in zip(asked, means):
        said = "" if published is None else f"{published:.2f} s, {100 * (mean / published - 1):+.4f} %"
        print(f"{policy:6} {seed:5} {3600 / gap:7.1f} {mean:9.0f} s  {said}")
        differs += published is not None and abs(mean / published - 1) > 0.0005
    for load, las, gavel in zip(LOADS, means[len(PUBLISHED)::2], means[len(PUBLISHED) + 1::2]):
        print(f"{load} jobs/h: {las / gavel:.2f} times as long without the speeds of jobs")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())

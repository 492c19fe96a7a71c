#!/usr/bin/env python3
"""Compares the policies of examples/outside/gavel.py with published results of Gavel (OSDI 2020).

    DRYRACK_DATA=... PYTHON tests/upstream/gavel/compare.py [DRYRACK]      (25 minutes on two cores)

PYTHON needs `pip install ecos scipy`. DRYRACK is target/release/dryrack if it is not named. The command draws the jobs of
Gavel's continuous experiments, runs them on 36 V100s, 36 P100s and 36 K80s, and prints the mean time from submission to
completion of jobs 4000 to 4999, and the part of the GPUs that was in use until the last of them ended. Of six
experiments with AlloX, EXPERIMENTS.md of stanford-futuredata/gavel has both. Of the others, the mean in hours is in the
output that scheduler/notebooks/figures/evaluation/continuous_jobs.ipynb of that repository keeps (commit 1ed988e). That
notebook does not say which revision of Gavel wrote the logs that it read. In revision c4fa400, parts are computed again
after 1,920 s at the earliest. With 1,000 s, the means are nearest to those of the notebook, so they are used here. The
command ends with 1 if a mean differs by more than 0.05 % for AlloX, by more than 1 % otherwise, or if the part of the
GPUs differs by more than 0.1 %.
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

# Policy, seed, seconds between two submissions on average, the published mean in seconds, and the part of the GPUs.
ALLOX = [("allox", 42, 9000, 59492.106756, 0.060797), ("allox", 1234, 9000, 64494.582453, 0.061878),
         ("allox", 15, 9000, 54834.129989, 0.060839), ("allox", 42, 4500, 59770.441018, 0.121262),
         ("allox", 1234, 4500, 64695.450528, 0.123312), ("allox", 15, 4500, 55072.401336, 0.121365)]
# Submissions an hour, and the published means in hours of the least attained service, without and with the speeds of jobs.
LOADS = [(4.0, 23.49, 16.82), (4.4, 23.81, 17.48), (4.8, 35.79, 18.97)]

RESET = 1000  # The least time in seconds between two computations of the parts, other than for AlloX.


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
    reset = 1920 if policy == "allox" else RESET
    command = json.dumps([sys.executable, str(ROOT / "examples/outside/gavel.py")])
    fleet = [("v", "v100-16g", ""), ("p", "p100-16g", ""), ("k", "k80", ", memory: 12GiB")]
    nodes = "".join(f"  - {{name: {name}, count: 36, cpus: 8, ram: 64GiB, gpus: [{{type: {gpu}, count: 1{more}}}]}}\n"
                    for name, gpu, more in fleet)
    return (f"scenario: Gavel's continuous experiment\nnodes:\n{nodes}"
            "speed: {reference: v100-16g, work: measured}\n"
            "trace: {format: gavel, file: list.trace, estimates: exact, checkpoint: {}}\n"
            f"outside: {{command: {command}, driver: {{policy: {policy}, seed: {seed}, reset_s: {reset}, "
            "order: [v100-16g, p100-16g, k80]}}\nexpect: [jobs_completed >= 5000]\n")


def results(folder, policy, seed, gap, table):
    """The mean time to completion in seconds of jobs 4000 to 4999, and the part of the GPUs in use until they ended."""
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
        rows = {int(row["job"]): row for row in csv.DictReader(file)}
    measured = [rows[job] for job in range(4000, 5000)]
    mean = statistics.mean(float(row["end"]) - float(row["submit"]) for row in measured)
    end = max(float(row["end"]) for row in measured)
    # Only with AlloX, a job has one attempt, which lasts from its start to its end.
    times = [(float(row["start"]), float(row["end"])) for row in rows.values()]
    return mean, sum(min(stop, end) - start for start, stop in times if start < end) / (3 * 36 * end)


def main():
    with tarfile.open(DATA / "traces/gavel-traces/gavel-traces.tar.gz") as archive:
        table = json.load(archive.extractfile(TABLE))
    loaded = [(policy, 0, 3600 / load, 3600 * mean, None) for load, *means in LOADS
              for policy, mean in zip(("las", "gavel"), means)]
    asked = ALLOX + loaded
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda run: results(pathlib.Path(folder), *run[:3], table), asked))
    differs = 0
    print("policy  seed  jobs/h   published         mean                GPUs in use")
    for (policy, seed, gap, published, part), (mean, used) in zip(asked, ran):
        said = f"{mean:9.0f} s, {100 * (mean / published - 1):+.4f} %"
        said += "" if part is None else f"  {used:.6f}, published {part:.6f}"
        print(f"{policy:6} {seed:5} {3600 / gap:7.1f} {published:9.0f} s {said}")
        differs += abs(mean / published - 1) > (0.01 if part is None else 0.0005)
        differs += part is not None and abs(used / part - 1) > 0.001
    for at, (load, las, gavel) in enumerate(LOADS):
        (las_here, _), (gavel_here, _) = ran[len(ALLOX) + 2 * at:][:2]
        print(f"{load} jobs/h: {las_here / gavel_here:.3f} times as long without speeds, published {las / gavel:.3f}")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())

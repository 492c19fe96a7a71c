#!/usr/bin/env python3
"""Compares Gavel, as the simulator of Sia (SOSP 2023) has it, with the results that Sia's artifact publishes.

    PYTHON tests/upstream/sia/compare.py ARTIFACT [DRYRACK]      (2 minutes on two cores)

ARTIFACT is a checkout of siasosp23/artifacts. PYTHON needs `pip install ecos scipy`. DRYRACK is target/release/dryrack if
it is not named. The README of the artifact's simulator has the results of one experiment: ten workloads with 160 jobs
each on 6 nodes with four T4, 2 with eight A100 and 3 with eight RTX 2080 Ti. Gavel's policy gives these GPUs to the jobs
in rounds of six minutes. The number of GPUs of a job and its batch size are fixed.

The command derives the work of each job from the measurements in the artifact, runs the experiment with rounds.py, and
prints both results. plain.py simulates the rules of the artifact, and those of dryrack. The command prints what each
difference between them changes. It ends with 1 if the mean time from submission to completion or the mean makespan
differs from the published one by more than 2 %, or if the end of a job differs from plain.py by more than a second, or
its number of restarts differs.
"""

import collections
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import plain
from measured import APPLICATIONS, KINDS, Measured, packed, read

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ROUND = 360

# From README.md of the artifact's simulator.
PUBLISHED = {
    "mean time from submission to completion, h": 2.548240277777778,
    "its standard deviation over workloads, h": 0.9456597205311155,
    "99th percentile of that time, h": 46.333888888888886,
    "mean makespan, h": 43.25152777777778,
    "least makespan, h": 27.21361111111111,
    "largest makespan, h": 59.57472222222222,
    "restarts of a job": 7.408,
    "restarts, bert": 0.9142857142857143,
    "restarts, cifar10": 0.7907153729071538,
    "restarts, deepspeech2": 4.96,
    "restarts, imagenet": 204.93478260869566,
    "restarts, yolov3": 11.814285714285715,
    "GPU hours of a job": 12.00549999999987,
    "GPU hours, bert, t4": 0.7771428571428574,
    "GPU hours, bert, a100-40g": 1.0457142857142856,
    "GPU hours, bert, rtx-2080-ti": 0.5971428571428575,
    "GPU hours, cifar10, t4": 0.37990867579908666,
    "GPU hours, cifar10, a100-40g": 0.7167427701674292,
    "GPU hours, cifar10, rtx-2080-ti": 0.9372907153729089,
    "GPU hours, deepspeech2, t4": 3.6679999999999886,
    "GPU hours, deepspeech2, a100-40g": 0.726,
    "GPU hours, deepspeech2, rtx-2080-ti": 3.6600000000000215,
    "GPU hours, imagenet, t4": 97.31739130434764,
    "GPU hours, imagenet, a100-40g": 93.4565217391296,
    "GPU hours, imagenet, rtx-2080-ti": 119.09999999999684,
    "GPU hours, yolov3, t4": 15.891428571428271,
    "GPU hours, yolov3, a100-40g": 1.3885714285714328,
    "GPU hours, yolov3, rtx-2080-ti": 1.3942857142857186,
}
CHECKED = ("mean time from submission to completion, h", "mean makespan, h")


def scenario(rows, measured):
    """The jobs of a workload. A start takes as long as a restart, so both are `prepare`."""
    jobs, rates = [], {}
    for row in rows:
        about, width, batch = measured[row["application"]], int(row["num_replicas"]), int(row["batch_size"])
        # The artifact's simulator counts whole seconds for each epoch.
        seconds = {gpu: sum(map(round, about.seconds(kind, packed(kind, width), batch))) for kind, gpu, _, _ in KINDS}
        rates[row["name"]] = {gpu: 1 / about.step(kind, packed(kind, width), batch)[0] for kind, gpu, _, _ in KINDS}
        factors = {gpu: round(seconds["t4"] / own, 6) for gpu, own in seconds.items() if gpu != "t4"}
        jobs.append({"name": row["name"], "at": f"{float(row['time'])}s", "tasks": width, "gpus": 1, "checkpoint": {},
                     "prepare": f"{about.about.start}s", "duration": f"{seconds['t4']}s",
                     "speed": {"reference": "t4", "factors": factors}})
    nodes = [{"name": kind, "count": count, "cpus": 8, "ram": "64GiB",
              "gpus": [{"type": gpu, "count": gpus, "memory": "11GiB"}]} for kind, gpu, count, gpus in KINDS]
    driver = {"policy": "sum", "order": [gpu for _, gpu, _, _ in KINDS], "round_s": ROUND, "rates": rates}
    outside = {"command": [sys.executable, str(HERE / "rounds.py")], "driver": driver}
    return {"scenario": "Gavel on a workload of Sia", "nodes": nodes, "jobs": jobs, "outside": outside,
            "expect": [f"jobs_completed == {len(jobs)}"]}


def gpu_hours(log, rows):
    """For each application and type of GPU. A round counts whole, as in the artifact, also if the job ends within it."""
    application = {row["name"]: row["application"] for row in rows}
    gpu = {name: gpu for name, gpu, _, _ in KINDS}
    placed, hours = {}, collections.Counter()
    for line in log:
        record = json.loads(line)
        event = record.get("event", {})
        for kind in ("placed", "ended"):
            if kind in event:
                run = json.dumps(event[kind]["run"])
                if kind == "placed":
                    at = event[kind]["placement"]
                    placed[run] = (record["at_ns"], at[0]["node"].rsplit("-", 1)[0], sum(len(part["gpus"]) for part in at))
                else:
                    start, node, gpus = placed.pop(run)
                    rounds = math.ceil((record["at_ns"] - start) / (ROUND * 1e9))
                    hours[application[event[kind]["run"]["job"]], gpu[node]] += gpus * rounds * ROUND / 3600
    return hours


def run(folder, program, path, measured):
    """The jobs of a workload with their times and attempts, and the GPU hours."""
    rows = read(path)
    folder = folder / path.stem
    folder.mkdir()
    (folder / "run.yaml").write_text(json.dumps(scenario(rows, measured)))
    args = [program, "run", "run.yaml", "--out", "out"]
    ran = subprocess.run(args, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(ran.stdout + ran.stderr)
    with open(folder / "out/events.jsonl") as log:
        hours = gpu_hours(log, rows)
    ended = {row["job"]: row for row in read(folder / "out/jobs.csv")}
    ended = [ended[row["name"]] for row in rows]
    return [(row["application"], float(job["submit"]), float(job["end"]), int(job["attempt"]) - 1)
            for row, job in zip(rows, ended)], hours


def lengths(jobs):
    """Hours from the submission of each job to its end, and from the first submission to the last end."""
    return ([(end - at) / 3600 for _, at, end, _ in jobs],
            (max(end for _, _, end, _ in jobs) - min(at for _, at, _, _ in jobs)) / 3600)


def figures(runs, hours):
    """The same figures as those of the README, computed in the same way."""
    times, spans = zip(*map(lengths, runs))
    jobs, all_times = sum(runs, []), sorted(sum(times, []))
    ours = [statistics.mean(all_times), statistics.pstdev(map(statistics.mean, times)), all_times[int(0.99 * len(jobs))],
            statistics.mean(spans), min(spans), max(spans), statistics.mean(restarts for *_, restarts in jobs)]
    of = {name: [restarts for application, *_, restarts in jobs if application == name] for name in APPLICATIONS}
    ours += [statistics.mean(restarts) for restarts in of.values()]
    ours += [sum(hours.values()) / len(jobs)]
    ours += [hours[name, gpu] / len(of[name]) for name in APPLICATIONS for _, gpu, _, _ in KINDS]
    return dict(zip(PUBLISHED, ours, strict=True))


# The rules of the artifact, one change of each, and those of dryrack, which are the last three changes together.
CHANGES = [("the rules of the artifact", plain.Rules()),
           ("starts take no time", plain.Rules(starts_take_time=False)),
           ("one speed on each type of GPU", plain.Rules(spread_counts=False)),
           ("each move is a restart", plain.Rules(like_moves_are_free=False)),
           ("parts of epochs are not rounded", plain.Rules(rests_are_rounded=False)),
           ("the last three changes", plain.Rules(False, False, False))]


def compare_rules(paths, measured):
    """Prints the results of a plain simulation of each set of rules, and gives the jobs of the last."""
    print(f"\n{'plain simulation':34} {'mean, h':>10} {'makespan, h':>12} {'restarts':>9}")
    for name, rules in CHANGES:
        runs = [[(job.application, job.at, job.end, job.restarts) for job in plain.simulate(read(path), measured, rules)]
                for path in paths]
        times, spans = zip(*map(lengths, runs))
        restarts = statistics.mean(restarts for run in runs for *_, restarts in run)
        print(f"{name:34} {statistics.mean(sum(times, [])):10.4f} {statistics.mean(spans):12.4f} {restarts:9.4f}")
    return runs


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    artifact = pathlib.Path(sys.argv[1]).resolve() / "sia-simulator"
    program = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "target/release/dryrack").resolve()
    measured = {name: Measured(artifact / "traces", name) for name in APPLICATIONS}
    paths = sorted((artifact / "workloads/saturn").glob("workload-*.csv"))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs, hours = zip(*pool.map(lambda path: run(pathlib.Path(folder), program, path, measured), paths))
    ours = figures(runs, sum(hours, collections.Counter()))
    print(f"{'':44} {'published':>10} {'here':>10}")
    for name, published in PUBLISHED.items():
        print(f"{name:44} {published:10.4f} {ours[name]:10.4f} {100 * (ours[name] / published - 1):+9.2f} %")
    differs = any(abs(ours[name] / PUBLISHED[name] - 1) > 0.02 for name in CHECKED)
    pairs = list(zip(sum(runs, []), sum(compare_rules(paths, measured), []), strict=True))
    alike = sum(abs(job[2] - same[2]) <= 1 and job[3] == same[3] for job, same in pairs)
    print(f"\n{alike} of {len(pairs)} jobs have the same end, to a second, and as many restarts as in the last simulation")
    return 1 if differs or alike < len(pairs) else 0


if __name__ == "__main__":
    sys.exit(main())

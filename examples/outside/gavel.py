#!/usr/bin/env python3
"""Policies of Gavel (OSDI 2020) for GPUs of different speeds: jobs share the GPUs in rounds of six minutes.

A policy states for each job the part of the time that it should get on each type of GPU. At the beginning of a round,
jobs are placed in the order of that part divided by the part that they got. Jobs that lose their GPUs are preempted,
and keep their work if they have a checkpoint. All jobs must be tasks with whole GPUs. It needs
`pip install ecos scipy`. In a scenario:

    outside: {command: [python3, gavel.py], driver: {policy: gavel}}

`las` (least attained service) treats all GPUs alike, `gavel` is the same with the speeds of each job, `allox` gives
each job one GPU such that the mean completion time is least, if estimates are exact, and `sum` makes the sum of the
speeds of all jobs largest. `driver` may also state the `order` in which types of GPU choose their jobs (only `las`
shuffles it, by `seed`), the length of a round (`round_s`), the least time between two computations of the parts
(`reset_s`), both in seconds, and `rates`: the speeds of each job on each type of GPU, in a unit of which a sum makes
sense, such as `rates: {a: {t4: 2.5, v100-16g: 8}}`. Without `rates`, the speeds are those of the scenario.
"""
import os
import random
import sys

import ecos
import numpy
from scipy import sparse
from scipy.optimize import linear_sum_assignment

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/outside"))
import dryrack_outside as outside  # noqa: E402

SECOND = 1_000_000_000


def solve(aim, limits, bounds, shape):
    """The parts, the first values of the vector that makes its product with `aim` least within `limits`."""
    bounds = numpy.concatenate(bounds).astype(float)
    limits = sparse.bmat(limits, format="csc")
    solved = ecos.solve(aim, limits, bounds, {"l": len(bounds), "q": []}, verbose=False)
    return numpy.clip(solved["x"][:shape[0] * shape[1]].reshape(shape), 0, 1)


def limits_of(widths, types):
    """A part is not negative, a type gives at most all of its GPUs, and a job gets at most all of its time."""
    jobs = len(widths)
    return (-sparse.identity(jobs * types), sparse.kron(widths[None], sparse.identity(types)),
            sparse.kron(sparse.identity(jobs), numpy.ones((1, types))))


def fair_parts(rates, widths, room):
    """The parts of the time with which the least of all `sum(rates * parts)` is largest.

    `rates` has a row for each job and a column for each type of GPU, `widths` the number of GPUs of each job, `room` that
    of each type.
    """
    jobs, types = rates.shape
    parts = jobs * types
    least = [-sparse.block_diag([row[None] for row in rates]), numpy.ones((jobs, 1))]  # At most what a job gets.
    aim = numpy.zeros(parts + 1)
    aim[parts] = -1
    limits = [least] + [[limit, None] for limit in limits_of(widths, types)]
    return solve(aim, limits, [numpy.zeros(jobs + parts), room, numpy.ones(jobs)], rates.shape)


def largest_sum(rates, widths, room):
    """The parts of the time with which the sum of all `rates * parts` is largest. Jobs that are alike get like parts, and
    what is below the precision of the solver is zero."""
    jobs, types = rates.shape
    limits = [[limit] for limit in limits_of(widths, types)]
    bounds = [numpy.zeros(jobs * types), room, numpy.ones(jobs)]
    return solve(-rates.reshape(-1), limits, bounds, rates.shape).round(5)


def las(speeds, widths, room):
    return fair_parts(numpy.ones(speeds.shape) * widths[:, None], widths, room)


def gavel(speeds, widths, room):
    alike = (speeds * las(speeds, widths, room)).sum(axis=1)
    return fair_parts(speeds / alike[:, None] * widths[:, None], widths, room)


POLICIES = {"las": las, "gavel": gavel, "sum": largest_sum}


class Rounds:
    def __init__(self, driver):
        self.policy = driver.get("policy", "gavel")
        if self.policy not in [*POLICIES, "allox"]:
            sys.exit(f"no policy {self.policy}: {', '.join(POLICIES)} or allox")
        self.rates = driver.get("rates", {})
        self.round = int(driver.get("round_s", 360) * SECOND)
        self.reset = int(driver.get("reset_s", 1920) * SECOND)
        self.order = driver.get("order", [])
        self.shuffled = random.Random(driver.get("seed", 0) + 5)
        self.start, self.end, self.reset_at, self.stale = 0, None, 0, True
        self.jobs, self.parts, self.got, self.missed, self.placed, self.target = {}, {}, {}, {}, {}, {}
        self.given = {}  # For each type of GPU, the time that jobs got on it.

    def hear(self, world):
        """Learns which jobs came and ended."""
        alive = {run["job"]: run for run in world.runs.values()}
        for name in [name for name in self.jobs if name not in alive]:
            if name in self.placed:
                self.given[self.placed[name]] += world.now - self.start
            for known in (self.jobs, self.got, self.missed, self.placed, self.target):
                known.pop(name, None)
            self.stale = True
        self.runs = alive

    def arrive(self, world):
        """Takes the jobs that came since the last round."""
        new = [world.jobs[name] for name in self.runs if name not in self.jobs]
        for job in sorted(new, key=lambda job: (job["submitted"], len(job["name"]), job["name"])):
            if self.policy == "allox" and job["estimate_ns"] is None:
                sys.exit(f"allox needs an estimate of each job, and {job['name']} has none")
            speeds = self.rates.get(job["name"]) or job["speeds"] or {}
            width = job["tasks"] * job["task"]["gpus"]["count"]
            allowed = job["task"]["gpus"]["types"] or list(self.room)
            rates = [speeds.get(kind, 1_000_000) if kind in allowed else 0 for kind in self.types]
            self.jobs[job["name"]] = (width, rates, job)
            self.got[job["name"]] = dict.fromkeys(self.types, self.round // 2)
            self.missed[job["name"]] = dict.fromkeys(self.types, 0)
            self.stale = True

    def compute(self, now):
        """Computes the part of the time that each job should get, and counts the time that it gets from now on."""
        self.count_from(now)
        self.share(now)

    def count_from(self, now):
        passed = now - self.reset_at
        self.given = dict.fromkeys(self.types, 0)
        for name in self.jobs:
            for at, kind in enumerate(self.types):
                due = self.parts[name][at] * passed if name in self.parts else 0
                self.missed[name][kind] += due - (self.got[name][kind] - self.round // 2)
                self.got[name][kind] = self.round // 2
                self.given[kind] += self.round // 2
        self.reset_at, self.stale = now, False

    def share(self, now):
        if not self.jobs:
            self.parts = {}
        elif self.policy == "allox":
            self.parts = self.allox(now)
        else:
            widths = numpy.array([width for width, _, _ in self.jobs.values()])
            speeds = numpy.array([speeds for _, speeds, _ in self.jobs.values()], dtype=float)
            room = numpy.array([self.room[kind] for kind in self.types])
            self.parts = dict(zip(self.jobs, POLICIES[self.policy](speeds, widths, room)))

    def allox(self, now):
        """Keeps the GPUs of jobs that have one, and assigns the others to the jobs that wait. A job that runs as the
        last but `i` on its GPU delays `i` others, so its time counts `i + 1` times."""
        kept = {name: part for name, part in self.parts.items() if name in self.jobs}
        free = [at for at, kind in enumerate(self.types)
                for _ in range(self.room[kind] - sum(part[at] == 1 for part in kept.values()))]
        waiting = [name for name in self.jobs if name not in kept]
        parts = {**kept, **{name: [0] * len(self.types) for name in waiting}}
        if free and waiting:
            times = numpy.array([[self.jobs[name][2]["estimate_ns"] / (self.jobs[name][1][at] or 1e-9) for at in free]
                                 for name in waiting])
            since = numpy.array([[float(now - self.jobs[name][2]["submitted"])] for name in waiting])
            costs = numpy.concatenate([(behind + 1) * times + since for behind in range(len(waiting))], axis=1)
            first = {}  # For each GPU, the job that runs first, which has the most behind it.
            for row, column in zip(*linear_sum_assignment(costs)):
                behind, gpu = divmod(column, len(free))
                first[gpu] = max(first.get(gpu, (-1, 0)), (behind, row))
            for gpu, (_, row) in first.items():
                parts[waiting[row]][free[gpu]] = 1
        return parts

    def rank(self, name, at):
        kind = self.types[at]
        part = self.parts[name][at] if name in self.parts else 0
        return (part * self.given[kind] / self.got[name][kind], self.missed[name][kind], part)

    def plan(self, world):
        """Chooses the jobs of the next round, and their types of GPU."""
        for name, kind in self.placed.items():
            self.got[name][kind] += world.now - self.start
            self.given[kind] += world.now - self.start
        self.arrive(world)
        if self.stale and (world.now - self.reset_at >= self.reset or self.reset_at == 0):
            self.compute(world.now)
        order = [kind for kind in self.order if kind in self.room]
        order += [kind for kind in self.types if kind not in order]
        if self.policy == "las":
            self.shuffled.shuffle(order)
        self.target = {}
        for kind in order:
            at, free = self.types.index(kind), self.room[kind]
            for name in sorted(self.jobs, key=lambda name: self.rank(name, at), reverse=True):
                width, speeds, _ = self.jobs[name]
                if name not in self.target and speeds[at] > 0 and width <= free:
                    self.target[name] = kind
                    free -= width
        self.target = {name: kind for name, kind in self.target.items() if name in self.parts}
        self.start, self.end = world.now, world.now + self.round if self.target else None

    def look(self, world):
        """Learns how many GPUs of each type there are, and gives their types, nodes and states."""
        gpus = [(gpu["type"], node, gpu) for node in world.nodes.values() if node["state"] == "ready"
                for gpu in node["gpus"] if gpu["state"] in ("ready", "degraded")]
        self.room = {kind: sum(of == kind for of, _, _ in gpus) for kind in sorted({kind for kind, _, _ in gpus})}
        self.types = list(self.room)
        self.given = self.given or dict.fromkeys(self.types, 0)
        return gpus

    def decide(self, world):
        gpus = self.look(world)
        self.hear(world)
        if self.end is None or world.now >= self.end or not self.placed:
            self.plan(world)
            for name, kind in self.placed.items():
                if self.target.get(name) != kind:
                    yield outside.preempt(self.runs[name], text="the round is over")
            self.placed = {}
        yield from self.place(world, gpus)
        world.wake_at = self.end

    def place(self, world, gpus):
        """Places the jobs of this round on GPUs that are free."""
        self.placed = {name: kind for name, kind in self.target.items() if self.runs[name]["parts"]}
        free = {kind: {} for kind in self.types}
        for kind, node, gpu in gpus:
            if not gpu["held_by"]:
                free[kind].setdefault(node["name"], []).append(gpu["index"])
        for run in world.waiting():
            name, parts = run["job"], []
            if name not in self.target:
                continue
            job = world.jobs[name]
            left, count, kind = job["tasks"], job["task"]["gpus"]["count"], self.target[name]
            for node, indexes in free[kind].items():
                if (tasks := min(left, len(indexes) // count)) > 0:
                    parts.append(outside.part(node, tasks=tasks, gpus=indexes[:tasks * count]))
                    left -= tasks
            if left == 0:
                for part in parts:
                    del free[kind][part["node"]][:len(part["gpus"])]
                yield outside.place(run, parts)
                self.placed[name] = kind


def serve(name, kind):
    rounds = []

    def decide(world):
        if not rounds:
            rounds.append(kind(world.driver))
        return rounds[0].decide(world)

    outside.serve(name, "1.0", decide, wants=["idle"])


if __name__ == "__main__":
    serve("gavel", Rounds)

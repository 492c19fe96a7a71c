"""A plain simulation of the rules by which the simulator of Sia's artifact runs Gavel.

With `Rules()`, these are all of its rules. Each rule can be replaced by that of dryrack.
"""

import collections
import dataclasses
import os
import sys

import numpy

from measured import APPLICATIONS, KINDS, PER_NODE, packed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/outside"))
from gavel import largest_sum  # noqa: E402

ROUND = 360
NAMES = [name for name, _, _, _ in KINDS]
ROOM = [nodes * gpus for _, _, nodes, gpus in KINDS]


@dataclasses.dataclass(frozen=True)
class Rules:
    # The speed of a job depends on how its GPUs are spread over nodes. Otherwise, it is that on full nodes.
    spread_counts: bool = True
    # A job that moves to as many GPUs on as many nodes of the same type goes on at once. Otherwise, each move is a restart.
    like_moves_are_free: bool = True
    # What is left of an epoch takes whole seconds. Otherwise, only a whole epoch does, and a part of it takes that part.
    rests_are_rounded: bool = True
    # A start takes time.
    starts_take_time: bool = True


class Job:
    def __init__(self, row, measured):
        self.name, self.application, self.at = row["name"], row["application"], float(row["time"])
        self.width, self.batch = int(row["num_replicas"]), int(row["batch_size"])
        self.measured = measured[self.application]
        self.rates = [1 / self.measured.step(kind, packed(kind, self.width), self.batch)[0] for kind in NAMES]
        self.gpus, self.nodes, self.starting, self.restarts = None, None, 0, -1
        self.epoch, self.part, self.end = 0, 0.0, None
        self.got = None

    def work(self, now, rules):
        """Works for a round."""
        left = ROUND - min(self.starting, ROUND)
        self.starting -= ROUND - left
        kind, nodes = self.nodes if rules.spread_counts else (self.nodes[0], packed(self.nodes[0], self.width))
        epochs = self.measured.seconds(kind, nodes, self.batch)
        if not rules.rests_are_rounded:
            total = sum(map(round, epochs))
            self.part, rest = self.part + left / total, (1 - self.part) * total
            self.end = now + ROUND - left + rest if rest <= left else None
            return
        while left > 0 and self.end is None:
            rest = (1 - self.part) * epochs[self.epoch]
            if rest > left:
                self.part += left / epochs[self.epoch]
                return
            left -= round(rest)
            self.epoch, self.part = self.epoch + 1, 0.0
            if self.epoch == len(epochs):
                self.end = now + ROUND - left

    def give(self, gpus, rules):
        """Gives GPUs of one type, or none, for the next round."""
        nodes = None
        if gpus:
            kind, indexes = gpus
            nodes = (kind, tuple(collections.Counter(index // PER_NODE[kind] for index in indexes).values()))
        before, same = (self.nodes, nodes) if rules.like_moves_are_free else (self.gpus, gpus)
        if gpus and before != same:
            self.starting = APPLICATIONS[self.application].start if rules.starts_take_time else 0
            self.restarts += 1
        self.gpus, self.nodes = gpus, nodes


def choose(jobs, given):
    """The jobs of the next round, for each type of GPU."""
    by_name = sorted(jobs, key=lambda job: job.name)
    parts = largest_sum(numpy.array([job.rates for job in by_name]), numpy.array([job.width for job in by_name]),
                        numpy.array(ROOM))
    part = dict(zip(by_name, parts))
    pairs = [(part[job][at] / (job.got[at] / given[at]), part[job][at], job, at) for at in range(len(KINDS)) for job in jobs]
    free, chosen = list(ROOM), {name: [] for name in NAMES}
    for _, _, job, at in sorted(pairs, key=lambda pair: pair[:2], reverse=True):
        if job.width <= free[at] and not any(job in of for of in chosen.values()):
            free[at] -= job.width
            chosen[NAMES[at]].append(job)
    return chosen


def assign(chosen):
    """The GPUs of each chosen job. The widest jobs keep theirs or take the first ones, then the next widest, and so on."""
    for kind, jobs in chosen.items():
        taken, first = set(), 0
        for width in sorted({job.width for job in jobs}, reverse=True):
            alike, kept = [job for job in jobs if job.width == width], {}
            for job in alike:
                if job.gpus and job.gpus[0] == kind and taken.isdisjoint(job.gpus[1]):
                    kept[job] = job.gpus
                    taken.update(job.gpus[1])
            for job in alike:
                new = []
                while job not in kept and len(new) < width:
                    if first not in taken:
                        new.append(first)
                    first += 1
                taken.update(new)
                yield job, kept.get(job) or (kind, tuple(new))


def simulate(rows, measured, rules):
    """The jobs of a workload, each with its end and its restarts."""
    jobs = [Job(row, measured) for row in rows]
    now, given = 0, [0] * len(KINDS)
    while any(job.end is None for job in jobs):
        for job in jobs:
            if job.end is None and job.gpus:
                job.work(now, rules)
        now += ROUND
        here = [job for job in jobs if job.at <= now and job.end is None]
        for job in here:
            if job.got is None:
                job.got = [ROUND / 2] * len(KINDS)
                given = [time + ROUND / 2 for time in given]
        gpus = dict(assign(choose(here, given))) if here else {}
        for job in here:
            job.give(gpus.get(job), rules)
            if job.gpus:
                at = NAMES.index(job.gpus[0])
                job.got[at] += ROUND
                given[at] += ROUND
    return jobs

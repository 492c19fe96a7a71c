#!/usr/bin/env python3
"""Gavel as the simulator of Sia (SOSP 2023) has it, in another process. Used by compare.py.

What differs from examples/outside/gavel.py:

- Rounds begin at multiples of their length. In each one, the parts are computed anew.
- The time that a job got counts since it came. A round counts whole, also if the job ends within it.
- All types of GPU have one queue of pairs of a job and a type. The `order` of types decides between equal pairs.
- The jobs of a round that have more GPUs choose them first, in the order of nodes. A job keeps its GPUs if no larger job
  chose one of them.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/outside"))
import gavel  # noqa: E402


class Rounds(gavel.Rounds):
    def __init__(self, driver):
        super().__init__(driver)
        self.planned = None
        self.assigned = {}  # For each job of this round, its type of GPU and its GPUs.
        self.holds = {}  # The same for each job that runs.

    def arrive(self, world):
        known = set(self.jobs)
        super().arrive(world)
        for kind in self.types:
            self.given[kind] += self.round // 2 * (len(self.jobs) - len(known))

    def rank(self, name, at):
        kind, part = self.types[at], self.parts[name][at]
        return (part / (self.got[name][kind] / self.given[kind]), part)

    def choose(self):
        """The jobs of the next round, for each type of GPU."""
        free, chosen, names = dict(self.room), {kind: [] for kind in self.order}, set()
        pairs = [(kind, name) for kind in self.order for name in self.jobs]
        for kind, name in sorted(pairs, key=lambda pair: self.rank(pair[1], self.types.index(pair[0])), reverse=True):
            width = self.jobs[name][0]
            if name not in names and width <= free[kind]:
                names.add(name)
                chosen[kind].append(name)
                free[kind] -= width
        return chosen

    def assign(self, kind, names, gpus):
        """Assigns GPUs of one type to its jobs of a round."""
        before, taken, left = self.assigned, set(), iter(gpus)
        for width in sorted({self.jobs[name][0] for name in names}, reverse=True):
            moves = []
            for name in names:
                old = before.get(name, (None, ()))
                if self.jobs[name][0] != width:
                    continue
                if old[0] == kind and taken.isdisjoint(old[1]):
                    taken.update(old[1])
                    yield name, old
                else:
                    moves.append(name)
            for name in moves:
                new = []
                while len(new) < width:
                    gpu = next(left)
                    if gpu not in taken:
                        new.append(gpu)
                taken.update(new)
                yield name, (kind, new)

    def plan(self, world, gpus):
        self.planned = world.now
        self.arrive(world)
        self.share(world.now)
        chosen = self.choose()
        self.assigned = {name: gpus_of for kind in self.order for name, gpus_of in self.assign(
            kind, chosen[kind], [(node["name"], gpu["index"]) for of, node, gpu in gpus if of == kind])}
        for name, (kind, _) in self.assigned.items():
            self.got[name][kind] += self.round
            self.given[kind] += self.round

    def decide(self, world):
        gpus = self.look(world)
        self.hear(world)
        self.holds = {name: held for name, held in self.holds.items() if name in self.runs}
        if world.now % self.round == 0 and world.now != self.planned and self.runs:
            self.plan(world, gpus)
            for name in [name for name, held in self.holds.items() if self.assigned.get(name) != held]:
                del self.holds[name]
                yield gavel.outside.preempt(self.runs[name], text="the round is over")
        free = {(node["name"], gpu["index"]) for _, node, gpu in gpus if not gpu["held_by"]}
        for run in world.waiting():
            _, mine = assignment = self.assigned.get(run["job"], (None, ()))
            if mine and free.issuperset(mine):
                free.difference_update(mine)
                self.holds[run["job"]] = assignment
                indexes = {}
                for node, index in mine:
                    indexes.setdefault(node, []).append(index)
                parts = [gavel.outside.part(node, tasks=len(of), gpus=of) for node, of in indexes.items()]
                yield gavel.outside.place(run, parts)
        world.wake_at = (world.now // self.round + 1) * self.round if self.runs else None


if __name__ == "__main__":
    gavel.serve("gavel-of-sia", Rounds)

#!/usr/bin/env python3
"""First fit: each run that waits gets the first nodes in order that have room for it; who does not fit is passed over.

It places jobs of tasks. How much a model takes, and which instances to make, are for other schedulers to say:
`dryrack run FILE.yaml --outside "python3 examples/outside/first_fit.py"`
"""
import copy
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/outside"))
import dryrack_outside as outside  # noqa: E402


class Room:
    """What is left on a node, less what this answer gives away."""
    def __init__(self, node):
        self.node, self.cpu, self.ram = node, node["cpu_free_milli"], node["ram_free"]
        usable = [gpu for gpu in node["gpus"] if gpu["state"] in ("ready", "degraded")]
        # Degraded GPUs come last.
        self.gpus = sorted((dict(gpu) for gpu in usable), key=lambda gpu: gpu["state"] == "degraded")

    def copied(self):
        other = copy.copy(self)
        other.gpus = [dict(gpu) for gpu in self.gpus]
        return other

    def suits(self, task, pick):
        node = self.node
        picked = {gpu[0] for gpu in gpus_of(pick)} | set((pick or {}).get("nodes", []))
        labels = all(node["labels"].get(key) == value for key, value in task["labels"].items())
        platform = task["os"] in (None, node["os"]) and task["arch"] in (None, node["arch"])
        return node["state"] == "ready" and not node["instance"] and labels and platform and (not pick or node["name"] in picked)

    def share_of(self, demand, gpu):
        """The share and memory that a task takes of a GPU, if it can."""
        room = gpu["memory"] - self.node["reserved"]["gpu_memory"]
        if (demand["types"] and gpu["type"] not in demand["types"]) or gpu["memory"] < (demand["min_memory"] or 0):
            return None
        if demand["take"] == "whole":
            idle = not gpu["held_by"] and not any(gpu["foreign"].values())
            return (1000, min(room, self.ram) if gpu["unified"] else room) if idle else None
        share = demand["share"] or 0
        memory = room * share // 1000 if demand["take"] == "share" else demand["memory"]
        return (share, memory) if gpu["memory_free"] >= memory and gpu["share_free"] >= max(share, 1) else None

    def take(self, task, pick):
        """Takes room for one more task, and returns its GPUs; None if there is no room."""
        if self.cpu < task["cpu_milli"] or self.ram < task["ram"]:
            return None
        self.cpu, self.ram, taken = self.cpu - task["cpu_milli"], self.ram - task["ram"], []
        demand, picked = task["gpus"], [index for name, index in gpus_of(pick) if name == self.node["name"]]
        count = 0 if not demand else len(picked) if pick and "all_gpus" in pick else demand["count"]
        for gpu in self.gpus if demand else []:
            part = self.share_of(demand, gpu) if not gpus_of(pick) or gpu["index"] in picked else None
            if part and len(taken) < count:
                taken.append(gpu["index"])
                gpu["held_by"] = [*gpu["held_by"], "this answer"]
                gpu["share_free"], gpu["memory_free"] = gpu["share_free"] - part[0], gpu["memory_free"] - part[1]
                self.ram -= part[1] if gpu["unified"] else 0
        return taken if len(taken) == count else None


def gpus_of(pick):
    return (pick or {}).get("gpus") or (pick or {}).get("all_gpus") or []


def parts_for(job, rooms):
    """The parts of a place for all tasks of a run, whose room is then taken; None if they do not fit."""
    task, pick, left, parts, after = job["task"], job["pick"], job["tasks"], [], {}
    exact = bool(pick and "all_gpus" in pick)
    for name, room in rooms.items():
        limit = min(left, 1) if exact or job["gang"] == "spread" else left
        tasks, gpus = 0, []
        while tasks < limit and room.suits(task, pick):
            if (more := (trial := room.copied()).take(task, pick)) is None:
                break
            room, tasks, gpus, after[name] = trial, tasks + 1, gpus + more, trial
        if tasks:
            parts.append(outside.part(name, tasks=tasks, gpus=gpus))
            left -= 0 if exact else tasks
    if len(parts) == len({gpu[0] for gpu in gpus_of(pick)}) if exact else left == 0:
        rooms.update(after)
        return parts
    return None


def decide(world):
    rooms = {name: Room(node) for name, node in world.nodes.items()}
    for run in sorted(world.waiting(), key=lambda run: (-world.job(run)["priority"], world.job(run)["submitted"])):
        job = world.job(run)
        parts = parts_for(job, rooms) if job["task"] else None
        yield outside.place(run, parts) if parts else outside.wait(run)


if __name__ == "__main__":
    outside.serve("first-fit", "1.0", decide)

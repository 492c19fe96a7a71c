#!/usr/bin/env python3
"""A small scheduler: each job goes to the node with the best score that has enough free GPUs."""

import dryrack_outside as outside


def score(free, wanted):
    """The fullest node first, so that whole nodes stay free for large jobs."""
    return -free


def decide(world):
    free = {
        name: [gpu["index"] for gpu in node["gpus"] if gpu["state"] == "ready" and not gpu["held_by"]]
        for name, node in world.nodes.items()
        if node["state"] == "ready"
    }
    for run in sorted(world.waiting(), key=lambda run: world.job(run)["submitted"]):
        wanted = world.job(run)["task"]["gpus"]["count"]
        fits = [name for name in free if len(free[name]) >= wanted]
        if not fits:
            yield outside.wait(run)
            continue
        best = max(fits, key=lambda name: score(len(free[name]), wanted))
        taken, free[best] = free[best][:wanted], free[best][wanted:]
        yield outside.place(run, [outside.part(best, tasks=1, gpus=taken)])


if __name__ == "__main__":
    outside.serve("example", "1.0", decide)

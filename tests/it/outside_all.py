"""A scheduler that uses all of the protocol, over the file to copy.

    python3 outside_all.py PATH_OF_SRC_OUTSIDE
"""
import sys

sys.path.insert(0, sys.argv[1])
import dryrack_outside as outside  # noqa: E402


def blocks_for(world, job, given):
    """Parts on instances that are there, and otherwise on the cheapest that could be made."""
    need, fleet, parts = job["requirements"]["gpu"]["count"]["min"], None, []
    order = sorted(world.nodes.values(), key=lambda node: (node["state"] != "ready", node["price_micros"] or 0, node["name"]))
    left = {name: [dict(offer) for offer in fleet["offers"]] for name, fleet in world.fleets.items()}
    for node in order:
        instance = node["instance"]
        if not instance or node["state"] not in ("ready", "gone") or len(parts) == job["tasks"]:
            continue
        each = len(node["gpus"]) // instance["blocks"]
        blocks, free = need // each, instance["blocks"] - len(instance["blocks_taken"]) - given.get(node["name"], 0)
        if need % each or blocks < 1 or free < blocks:
            continue
        if node["state"] == "gone":
            offer = left[instance["fleet"]][instance["offer"]]
            if not offer["capacity_left"]:
                continue
            offer["capacity_left"] -= 1
        parts.append(outside.part(node["name"], blocks=blocks))
    return parts if len(parts) == job["tasks"] else None


def gpus_for(world, job, given):
    if job["model"]:
        need = job["model"]["weights"] * 6 // 5
        for node in world.nodes.values():
            for gpu in node["gpus"] if node["state"] == "ready" else []:
                free = gpu["memory_free"] - given.get((node["name"], gpu["index"]), 0)
                if free >= need:
                    given[(node["name"], gpu["index"])] = need
                    return [outside.part(node["name"], gpus=[{"index": gpu["index"], "memory": need}])]
        return None
    count = job["task"]["gpus"]["count"]
    for node in world.nodes.values():
        free = [gpu["index"] for gpu in node["gpus"] if not gpu["held_by"] and (node["name"], gpu["index"]) not in given]
        if node["state"] == "ready" and len(free) >= count:
            given.update({(node["name"], index): 1 for index in free[:count]})
            return [outside.part(node["name"], gpus=free[:count])]
    return None


def decide(world):
    given = {}
    for sample in world.usage:
        if sample["run"] in world.runs and sample["utilization"] == [0]:
            yield outside.cancel(run=sample["run"], because="utilization_policy", text="idle")
    for run in world.waiting():
        job = world.job(run)
        if job["requirements"]:
            parts = blocks_for(world, job, given)
            for part in parts or []:
                given[part["node"]] = given.get(part["node"], 0) + part["blocks"]
        else:
            parts = gpus_for(world, job, given)
        if parts:
            yield outside.place(run, parts)
            continue
        victims = [other for other in world.running() if world.job(other)["priority"] < job["priority"] and other["phase"] == "running"]
        if victims:
            yield outside.preempt(victims[0], for_=run)
        yield outside.wait(run, {"insufficient_gpus": len(world.nodes)}, f"no room for {run['run']}")
    if world.now < 5_000_000_000:
        world.wake_at = 5_000_000_000
    elif world.now == 5_000_000_000 and "unwanted" in world.jobs:
        yield outside.cancel(job="unwanted")


def evaluate(world, job):
    fits = gpus_for(world, job, {}) is not None
    return {"fits": fits, "reasons": {} if fits else {"insufficient_gpus": 1}, "text": "as asked"}


outside.serve("all", "0.1", decide, evaluate, wants=["usage", "idle"])

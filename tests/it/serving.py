"""An independent simulation of one service, written from docs/src/serving.md alone.

It advances one step at a time and gives one token at a time to each sequence, in exact fractions, so it shares neither
the sums nor the event queue of dryrack. Input: JSON on standard input. Output: the sorted times to first token, times
per token and latencies, in nanoseconds, rounded down.
"""

import json
import sys
from fractions import Fraction as F


def main():
    world = json.load(sys.stdin)
    rate, base = F(world["prefill"]), F(world["base"])
    per_sequence, per_token = F(world["per_sequence"]), F(world["per_1k_context"]) / 1000
    cache, most, budget = world["kv_cache_tokens"], world["max_sequences"], world["max_batched_tokens"]
    chunked = world["chunked"]
    todo = [dict(at=F(at), input=i, output=o, done=0, made=0, first=None) for at, i, o in world["requests"]]
    replicas = [dict(clock=F(0), queue=[], batch=[], busy=False) for _ in range(world["replicas"])]
    ended = []

    def plan(replica, now):
        """Admits what fits and fixes the next step: which prompt tokens, which sequences, and when it ends."""
        while replica["queue"]:
            head = replica["queue"][0]
            held = sum(r["input"] + r["output"] for r in replica["batch"])
            if held + head["input"] + head["output"] > cache or len(replica["batch"]) >= most:
                break
            replica["batch"].append(replica["queue"].pop(0))
        prompts = [r for r in replica["batch"] if r["done"] < r["input"]]
        answers = [r for r in replica["batch"] if r["done"] == r["input"]]
        replica["busy"] = bool(replica["batch"])
        if not replica["busy"]:
            return
        parts = []
        if chunked:
            room = max(budget - len(answers), 1)
            for r in prompts:
                part = min(room, r["input"] - r["done"])
                if part:
                    parts.append((r, part))
                    room -= part
        elif prompts:
            answers, total = [], 0
            for r in prompts:
                if parts and total + r["input"] > budget:
                    break
                parts.append((r, r["input"]))
                total += r["input"]
        tokens = sum(part for _, part in parts)
        context = sum(r["input"] + r["made"] for r in answers)
        length = base + F(tokens) / rate + per_sequence * len(answers) + per_token * context
        replica["step"] = (now + length, parts, answers)

    def finish(replica):
        now, parts, answers = replica["step"]
        for r in answers:
            r["made"] += 1
        for r, part in parts:
            r["done"] += part
            if r["done"] == r["input"]:
                r["made"], r["first"] = 1, now
        for r in [r for r in replica["batch"] if r["made"] == r["output"]]:
            replica["batch"].remove(r)
            ended.append((r, now))
        plan(replica, now)

    while todo or any(r["busy"] for r in replicas):
        step = min((r["step"][0] for r in replicas if r["busy"]), default=None)
        if todo and (step is None or todo[0]["at"] < step):
            now, touched = todo[0]["at"], []
            while todo and todo[0]["at"] == now:
                load = lambda r: len(r["queue"]) + len(r["batch"])
                replica = min(replicas, key=load)
                replica["queue"].append(todo.pop(0))
                touched.append(replica)
            for replica in touched:
                if not replica["busy"]:
                    plan(replica, now)
            continue
        next(map(finish, (r for r in replicas if r["busy"] and r["step"][0] == step)))

    nanos = lambda time: int(time * 10**9)
    json.dump(
        {
            "ttft": sorted(nanos(r["first"] - r["at"]) for r, _ in ended),
            "tpot": sorted(nanos((end - r["first"]) / (r["output"] - 1)) for r, end in ended if r["output"] > 1),
            "e2e_latency": sorted(nanos(end - r["at"]) for r, end in ended),
        },
        sys.stdout,
    )


main()

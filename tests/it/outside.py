"""A scheduler that places jobs of GPUs by first fit, and at one point does something wrong.

    python3 outside.py MODE [N]

MODE names what it does at its first decision; `killed N` dies at the Nth line that it reads, and `good` does nothing
wrong. It speaks the protocol by hand, since what it gets wrong is the protocol itself.
"""
import json
import os
import signal
import sys
import time

mode = sys.argv[1]
lines, nodes, jobs, runs, done = 0, {}, {}, {}, False


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def answer(id, decisions, **more):
    return json.dumps({"type": "decisions", "id": id, "decisions": decisions, **more}) + "\n"


def good(waiting):
    """Places what fits, first come first served."""
    free = {name: [gpu["index"] for gpu in node["gpus"] if not gpu["held_by"] and node["state"] == "ready"] for name, node in nodes.items()}
    for run in waiting:
        need = jobs[runs[run]["job"]]["task"]["gpus"]["count"]
        name = next((name for name, gpus in free.items() if len(gpus) >= need), None)
        if name:
            taken, free[name] = free[name][:need], free[name][need:]
            yield {"do": "place", "run": run, "parts": [{"node": name, "gpus": taken}]}


def place(run, node="alpha", **part):
    return {"do": "place", "run": run, "parts": [{"node": node, **part}]}


def wrong(id, now, waiting):
    """The line of an answer with a mistake, and how it ends."""
    first, second = waiting[0], waiting[-1]
    mistakes = {
        "unknown_run": [place("nobody/0/1", gpus=[0])],
        "unknown_job": [{"do": "cancel", "job": "nobody"}],
        "unknown_node": [place(first, "nowhere", gpus=[0])],
        "unknown_gpu": [place(first, gpus=[7])],
        "unknown_gpu_far": [place(first, gpus=[70_000])],
        "unknown_block": [place(first, blocks=[7])],
        "unknown_reason": [{"do": "wait", "run": first, "reasons": {"bad_luck": 1}}],
        "decided_twice": [place(first, gpus=[0]), place(first, gpus=[1])],
        "misshapen": [{"do": "place", "run": first, "parts": []}],
        "misshapen_gpus": [place(first, gpus=[0, 1, 2])],
        "misshapen_tasks": [place(first, gpus=[0], tasks=1 << 40)],
        "does_not_fit": [place(first, gpus=[0]), place(second, gpus=[0])],
        "unmet": [place(first, "beta", gpus=[0])],
        "gang_torn": [place(first, gpus=[0, 1], tasks=2)],
        "place_not_ready": [place(first, "gamma", gpus=[0])],
        "not_running": [{"do": "preempt", "run": first}],
    }
    if mode in mistakes:
        say(answer(id, mistakes[mode]))
    elif mode == "in_the_past":
        say(answer(id, list(good(waiting)), wake_at=now))
    elif mode == "deadline_missed":
        time.sleep(30)
    elif mode == "half_line":
        say('{"type":"decis')
        sys.exit(0)
    elif mode == "not_json":
        say("Traceback (most recent call last):\n")
    elif mode == "not_a_message":
        say(json.dumps({"type": "decisions", "id": id, "decisions": [], "note": "hi"}) + "\n")
    elif mode == "wrong_id":
        say(answer(id + 7, []))
    elif mode == "repeated_id":
        say(answer(id, list(good(waiting))) * 2)
    elif mode == "flood":
        say("x" * (17 << 20) + "\n")
    elif mode == "flood_of_decisions":
        say(answer(id, [{"do": "wait", "run": first}] * 100_001))
    elif mode == "given_up":
        say(json.dumps({"type": "fault", "id": id, "name": "stand_in_unused", "text": "weights"}) + "\n")
    elif mode == "process_died":
        print("no more memory", file=sys.stderr)
        sys.exit(3)
    else:
        raise ValueError(mode)


for line in sys.stdin:
    lines += 1
    if mode == "killed" and lines == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    message = json.loads(line)
    if message["type"] == "hello":
        if mode == "wrong_protocol":
            say(json.dumps({"type": "hello", "protocol": 2, "who": "later"}) + "\n")
        else:
            say(json.dumps({"type": "hello", "protocol": 1, "name": "test", "version": "1"}) + "\n")
    elif message["type"] in ("snapshot", "delta"):
        nodes.update((node["name"], node) for node in message["nodes"])
        jobs.update((job["name"], job) for job in message["jobs"])
        runs.update((run["run"], run) for run in message["runs"])
        for refused in message.get("refused", []):
            print("refused", refused["fault"], file=sys.stderr)
    elif message["type"] == "decide":
        waiting = message["waiting"]
        if mode == "standstill":
            held = [run for run in runs.values() if run["phase"] == "running"]
            stop = [{"do": "preempt", "run": run["run"]} for run in held]
            say(answer(message["id"], stop + list(good(waiting))))
        elif mode == "not_waiting" and not done and any(run["phase"] == "running" for run in runs.values()):
            done = True
            running = next(run for run in runs.values() if run["phase"] == "running")
            say(answer(message["id"], [place(running["run"], gpus=[0])]))
        elif mode in ("good", "killed", "not_waiting") or done:
            say(answer(message["id"], list(good(waiting))))
        else:
            done = True
            wrong(message["id"], message["now"], waiting)
    elif message["type"] == "bye":
        break

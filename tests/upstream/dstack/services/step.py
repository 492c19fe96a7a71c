"""Draws services that scale with their requests, steps the dstack 0.22 that this Python has installed through them, and
records how many replicas each is to have and where they are. One JSON object to a line, in the format of
tests/data/dstack/services.jsonl.gz.

    PYTHON_OF_THE_VERSION step.py --seed 1 --cases 40 > records.jsonl

The rounds are those of `../sequences/step.py`. Of a gateway there is only what the server would be told by one: how many
requests came within a service's window, which is what the case says, from the round on in which it says so.
"""

import argparse
import asyncio
import importlib.util
import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("sequences", HERE.parent / "sequences" / "step.py")
sequences = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sequences)

from world import OUT, models, pass_time, run_services  # noqa: E402

import dstack._internal.server.background.pipeline_tasks.runs as run_pipeline  # noqa: E402
from dstack._internal.proxy.gateway.schemas.stats import Stat  # noqa: E402

# How many requests a gateway has counted, by run.
COUNTED = {}


async def without_gateway(session, run, *_, **__):
    run.service_spec = None


async def stats(run, spec):
    count = COUNTED.get(run.run_name)
    return None if count is None else {window: Stat(requests=count, request_time=0.1) for window in (30, 60, 300)}


run_services.services.assign_service = without_gateway
run_pipeline._load_gateway_stats = stats


def draw_service(rng, number, round_):
    low = rng.choice([0, 1, 1, 2])
    scaling = {
        "metric": "rps", "target": rng.choice([0.5, 1, 2, 10]), "window": rng.choice([30, 60, 300]),
        "scale_up_delay": rng.choice([0, 10, 60, 120, 300]), "scale_down_delay": rng.choice([0, 60, 240, 600]),
    }
    return {
        "round": round_, "op": "submit", "name": f"run-{number:02}", "nodes": 1, "priority": rng.choice([0, 0, 50]),
        "retry_no_capacity": rng.random() < 0.7, "resources": {"cpu": "1..", "memory": "1GB..", "disk": "1GB.."},
        "service": {"replicas": {"min": low, "max": low + rng.randint(1, 3)}, "scaling": scaling},
    }


def draw_requests(rng, submitted, round_):
    of_one = submitted["service"]["scaling"]["target"] * submitted["service"]["scaling"]["window"]
    count = rng.choice([0, rng.randint(0, int(of_one * 5)), int(of_one) * rng.randint(0, 4)])
    return {"round": round_, "op": "requests", "name": submitted["name"], "count": count}


class Server(sequences.Server):
    async def submit_service(self, event):
        profile = {"creation_policy": "reuse"}
        if event["retry_no_capacity"]:
            profile["retry"] = {"on_events": ["no-capacity"], "duration": "2h"}
        service = event["service"]
        low, high = service["replicas"]["min"], service["replicas"]["max"]
        configuration = {
            "type": "service", "port": 80, "gateway": False, "replicas": f"{low}..{high}", "scaling": service["scaling"],
            "priority": event["priority"], "resources": event["resources"], "probes": [],
        }
        await self.submit(self.run_spec(event["name"], configuration, profile))


async def play(rng, name):
    fleet = {**sequences.draw_fleet(rng), "placement": "any", "hosts": rng.randint(1, 3)}
    lengths = [rng.choice([6, 6, 6, 15, 30]) for _ in range(rng.randint(80, 160))]
    COUNTED.clear()
    server = Server()
    await server.start_with(fleet)
    journal = sequences.Journal(server, {key: host for key, (host, _) in (await server.hosts()).items()})
    # Services that are to have fewer replicas since the last round are often to have more again: some still terminate.
    events, services, desired, wanted, fallen = [], [], [], {}, set()
    for round_, length in enumerate(lengths):
        if len(services) < 3 and rng.random() < (0.9 if round_ == 0 else 0.03):
            services.append(draw_service(rng, len(services), round_))
            events.append(services[-1])
            await server.submit_service(services[-1])
        for service in services:
            if rng.random() < (0.6 if service["name"] in fallen else 0.06):
                events.append(draw_requests(rng, service, round_))
                COUNTED[service["name"]] = events[-1]["count"]
        pass_time(length)
        await journal.step(round_)
        fallen.clear()
        for run in await server.rows(models.RunModel):
            if wanted.get(run.run_name) != run.desired_replica_count:
                if run.desired_replica_count < wanted.get(run.run_name, 0):
                    fallen.add(run.run_name)
                wanted[run.run_name] = run.desired_replica_count
                desired.append([round_, run.run_name, run.desired_replica_count])
    answer = await journal.answer()
    await server.stop()
    return {"id": name, "fleet": fleet, "round_dt_s": lengths, "events": events, "answer": {**answer, "desired": desired}}


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=40)
    args = parser.parse_args()
    for number in range(args.cases):
        # Each case has draws of its own: one more moves no other's.
        record = await play(random.Random(f"services/{args.seed}/{number}"), f"v{number:04}")
        print(json.dumps(record), file=OUT, flush=True)


asyncio.run(main())

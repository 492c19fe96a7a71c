"""Draws fleets of a cloud with instances in several regions, and asks the dstack 0.22 that this Python has installed where
each node of a run goes. One JSON object to a line, in the format of tests/data/dstack/regions.jsonl.gz.

    PYTHON_OF_THE_VERSION ask.py --seed 1 --cases 100 > records.jsonl

Each case is a world of its own (`../world.py`). Instances are put into the database as they are. A round is six seconds, then
a step each over submitted jobs and over runs.
"""

import argparse
import asyncio
import json
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import world  # noqa: E402
from world import OUT, VERSION, InstanceStatus, get_session_ctx, made, models, pass_time  # noqa: E402

from dstack._internal.core.models.backends.base import BackendType  # noqa: E402
from dstack._internal.core.models.fleets import FleetNodesSpec, InstanceGroupPlacement  # noqa: E402


class Server(world.Server):
    async def put(self, fleet):
        backend, instances = BackendType(fleet["backend"]), fleet["instances"]
        nodes = FleetNodesSpec(min=0, target=len(instances), max=len(instances))
        placement = InstanceGroupPlacement(fleet["placement"])
        configuration = made.get_fleet_configuration(name=fleet["name"], nodes=nodes, placement=placement)
        async with get_session_ctx() as session:
            project, _ = await self.owners(session)
            row = await made.create_fleet(session, project, spec=made.get_fleet_spec(configuration))
            for number, told in enumerate(instances):
                has = {
                    "backend": backend, "region": told["region"], "gpu_count": told["gpus"], "gpu_name": told["gpu_name"],
                    "gpu_memory_gib": told["gpu_memory_mib"] / 1024, "cpu_count": told["cpus"],
                    "memory_gib": told["memory_mib"] / 1024, "price": told["price"],
                }
                await made.create_instance(
                    session, project, fleet=row, status=InstanceStatus.BUSY if told["busy_blocks"] else InstanceStatus.IDLE,
                    backend=backend, region=told["region"], name=told["name"], instance_num=number, price=told["price"],
                    total_blocks=told["total_blocks"], busy_blocks=told["busy_blocks"],
                    offer=made.get_instance_offer_with_availability(**has),
                    job_provisioning_data=made.get_job_provisioning_data(dockerized=True, **has),
                )

    async def newly_assigned(self, known, number):
        rows = {row.id: row for row in await self.rows(models.InstanceModel)}
        found = []
        for job in await self.rows(models.JobModel, models.JobModel.job_num):
            if job.job_num in known or not job.used_instance_id or not job.job_runtime_data:
                continue
            known.add(job.job_num)
            row = rows[job.used_instance_id]
            blocks = json.loads(job.job_runtime_data)["offer"]["blocks"]
            found.append({
                "job": job.job_num, "round": number, "instance": row.name, "region": row.region, "blocks": blocks,
            })
        return found


async def answer(case):
    server = Server()
    await server.start()
    await server.put(case["fleet"])
    run = case["run"]
    configuration = {"nodes": run["nodes"], "resources": run["resources"]}
    await server.submit(server.run_spec("run-a", configuration, {"creation_policy": run["creation_policy"]}))
    known, assigned, jobs = set(), [], []
    for number in range(20):
        pass_time(6)
        await server.step("JobSubmittedPipeline")
        await server.step("RunPipeline")
        assigned += await server.newly_assigned(known, number)
        jobs = await server.rows(models.JobModel, models.JobModel.job_num)
        if all(job.status.value != "submitted" for job in jobs):
            break
    found = {
        "assigned": assigned,
        "jobs": [
            {"job": job.job_num, "status": job.status.value,
             "reason": job.termination_reason.value if job.termination_reason else None}
            for job in jobs
        ],
        "run": {"status": (await server.rows(models.RunModel))[0].status.value},
        "regions_used": sorted({place["region"] for place in assigned}),
        "busy_after": {row.name: row.busy_blocks for row in await server.rows(models.InstanceModel)},
    }
    await server.stop()
    return found


def draw(rng, number):
    mixed, regions = rng.random() < 0.4, rng.sample(["eu-1", "us-1", "ap-1"], k=rng.randint(1, 3))
    common, instances = rng.choice([1, 2, 4, 8]), []
    for place in range(rng.randint(2, 6)):
        gpus = rng.choice([4, 8, 8])
        blocks = rng.choice([blocks for blocks in (1, 2, 4, 8) if blocks <= gpus]) if mixed else min(common, gpus)
        instances.append({
            "name": f"i{place}", "region": rng.choice(regions), "price": float(rng.choice([1, 1, 2, 2, 3, 4, 5, 6])),
            "total_blocks": blocks, "busy_blocks": rng.choice([0, 0, 0, 0, 1, blocks // 2, blocks]) if blocks > 1 else
            rng.choice([0, 0, 0, 1]), "cpus": 8, "memory_mib": 65536, "gpus": gpus, "gpu_name": "T4",
            "gpu_memory_mib": 16384,
        })
    resources = {"cpu": "1..", "memory": "1GB..", "disk": "1GB..", "gpu": rng.choice(["1..", "1..", "4..", "8..", "1..4"])}
    placement = "any" if rng.random() < 0.1 else "cluster"
    return {
        "id": f"r{number:04}", "kind": "cloud_regions",
        "fleet": {"name": "fleet-0", "placement": placement, "backend": "vultr", "instances": instances},
        "run": {"nodes": rng.randint(1, 4), "resources": resources, "creation_policy": "reuse"},
    }


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100)
    args = parser.parse_args()
    for number in range(args.cases):
        # Each case has draws of its own: one more moves no other's.
        case = draw(random.Random(f"regions/{args.seed}/{number}"), number)
        print(json.dumps({**case, "answer": {VERSION: await answer(case)}}), file=OUT, flush=True)


asyncio.run(main())

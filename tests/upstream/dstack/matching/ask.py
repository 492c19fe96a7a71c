"""Asks the dstack that this Python has installed for its answers to matching cases.

    PYTHON_OF_THE_VERSION ask.py < cases.jsonl > answers.jsonl

Each case is a world of its own (`../world.py`). A round is six seconds, then a step over the submitted jobs and one over
the runs; of 0.19 there are as many steps over jobs as the run has nodes.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import world  # noqa: E402
from world import (  # noqa: E402
    HAS_PIPELINES, OUT, VERSION, InstanceStatus, get_session_ctx, host_of, models, pass_time, run_services, select,
)

if not HAS_PIPELINES:
    from dstack._internal.server.background.tasks import process_runs, process_submitted_jobs


class Server(world.Server):
    async def make_busy(self, fractions):
        async with get_session_ctx() as session:
            for row in (await session.execute(select(models.InstanceModel))).unique().scalars().all():
                if row.total_blocks is not None and row.status == InstanceStatus.IDLE:
                    row.busy_blocks = int(fractions[host_of(row)] * row.total_blocks)
                    if row.busy_blocks:
                        row.status = InstanceStatus.BUSY
            await session.commit()

    async def instances(self):
        found = []
        for row in await self.rows(models.InstanceModel):
            name = host_of(row)
            if row.status in (InstanceStatus.TERMINATED, InstanceStatus.TERMINATING):
                reason = getattr(row, "termination_reason_message", None) or row.termination_reason
                found.append({
                    "instance": name, "status": row.status.value, "total_blocks": None, "reason": str(reason),
                })
                continue
            resources = json.loads(row.offer)["instance"]["resources"]
            found.append({
                "instance": name, "status": row.status.value, "total_blocks": row.total_blocks,
                "busy_blocks": row.busy_blocks, "cpus": resources["cpus"], "memory_mib": int(resources["memory_mib"]),
                "gpus": [[gpu["name"], int(gpu["memory_mib"])] for gpu in resources["gpus"]],
            })
        return found

    def spec_of(self, run):
        profile = {"creation_policy": run["creation_policy"]}
        if "fleets" in run:
            profile["fleets"] = run["fleets"]
        return self.run_spec("run-a", {"nodes": run["nodes"], "resources": run["resources"]}, profile)

    async def plan(self, spec, hosts):
        more = {"full_offers": False, "unallocated_resources": False, "for_offers_only": False} if HAS_PIPELINES else {}
        async with get_session_ctx() as session:
            project, user = await self.owners(session)
            plan = await run_services.get_plan(
                session=session, project=project, user=user, run_spec=spec, max_offers=None, **more
            )
        by_disk = {host["disk_mib"]: host["name"] for host in hosts}

        def seen(offer):
            resources = offer.instance.resources
            disk_mib = int(resources.disk.size_mib)
            if disk_mib not in by_disk:
                raise LookupError(f"an offer of no host of the case, with a disk of {disk_mib} MiB")
            return {
                "instance": by_disk[disk_mib], "blocks": offer.blocks,
                "total_blocks": offer.total_blocks, "cpus": resources.cpus, "memory_mib": int(resources.memory_mib),
                "gpus": [[gpu.name, int(gpu.memory_mib)] for gpu in resources.gpus],
                "availability": offer.availability.value,
            }

        plans = [[seen(offer) for offer in job.offers] for job in plan.job_plans]
        return plans[0], all(other == plans[0] for other in plans)

    async def round(self, nodes):
        pass_time(6)
        if HAS_PIPELINES:
            await self.step("JobSubmittedPipeline")
            await self.step("RunPipeline")
            return
        for _ in range(nodes):
            await process_submitted_jobs.process_submitted_jobs()
        await process_runs.process_runs()

    async def newly_assigned(self, known, number):
        names = {row.id: host_of(row) for row in await self.rows(models.InstanceModel)}
        found = []
        for job in await self.rows(models.JobModel, models.JobModel.job_num):
            if job.job_num in known or not job.used_instance_id or not job.job_runtime_data:
                continue
            known.add(job.job_num)
            data = json.loads(job.job_runtime_data)
            offer = data["offer"]
            resources = offer["instance"]["resources"]
            found.append({
                "job": job.job_num, "round": number, "instance": names[job.used_instance_id], "blocks": offer["blocks"],
                "total_blocks": offer["total_blocks"], "cpus": resources["cpus"],
                "memory_mib": int(resources["memory_mib"]), "gpus": len(resources["gpus"]),
                "network": data["network_mode"],
            })
        return found

    async def jobs(self):
        found = []
        for job in await self.rows(models.JobModel, models.JobModel.job_num):
            seen = {
                "job": job.job_num, "submission": job.submission_num, "status": job.status.value,
                "reason": job.termination_reason.value if job.termination_reason else None,
            }
            if job.termination_reason_message:
                seen["message"] = job.termination_reason_message
            found.append(seen)
        return found


async def answer(case):
    server = Server()
    await server.start()
    hosts = [host for fleet in case["fleets"] for host in fleet["hosts"]]
    for fleet in case["fleets"]:
        await server.add_fleet(fleet["name"], fleet["placement"], fleet["hosts"])
    await server.make_busy({host["name"]: host["busy_fraction"] for host in hosts})
    found = {"instances": await server.instances()}
    spec = server.spec_of(case["run"])
    found["plan_offers"], found["plan_same_for_all_nodes"] = await server.plan(spec, hosts)
    await server.submit(spec)
    known, assigned, rounds = set(), [], 0
    while rounds < 20:
        await server.round(case["run"]["nodes"])
        assigned += await server.newly_assigned(known, rounds)
        rounds += 1
        jobs = await server.jobs()
        if all(job["status"] != "submitted" for job in jobs):
            break
    run = (await server.rows(models.RunModel))[0]
    after = await server.instances()
    found.update({
        "rounds": rounds,
        "jobs": jobs,
        "assigned": assigned,
        "run": {"status": run.status.value, "reason": run.termination_reason.value if run.termination_reason else None},
        "busy_after": {row["instance"]: row["busy_blocks"] for row in after if row.get("busy_blocks")},
    })
    await server.stop()
    return found


async def main():
    for line in sys.stdin:
        case = json.loads(line)
        try:
            found = await answer(case)
        except Exception as fault:  # A case that cannot be asked is told, and the others are.
            print(json.dumps({"id": case["id"], "fault": f"{type(fault).__name__}: {fault}"[:500]}), file=OUT, flush=True)
            continue
        print(json.dumps({"id": case["id"], "version": VERSION, "answer": found}), file=OUT, flush=True)


asyncio.run(main())

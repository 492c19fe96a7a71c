"""Asks the dstack that this Python has installed for its answers to matching cases.

    PYTHON_OF_THE_VERSION ask.py < cases.jsonl > answers.jsonl

Each case is a world of its own: an empty in-memory database, ids and a clock that begin anew. Nothing of dstack is changed
but what would leave the machine: the clock, the ids (so that rows are in order of creation), the registry of images, and
the deployment to a host, which answers with the facts of the case. A round is six seconds, then a step over the submitted
jobs and one over the runs; of 0.19 there are as many steps over jobs as the run has nodes.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
import uuid
from datetime import datetime, timedelta, timezone

os.environ.setdefault("DSTACK_SERVER_DIR", tempfile.mkdtemp(prefix="dstack-ask-"))
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class World:
    now = BEGIN
    ids = 0


def next_id():
    World.ids += 1
    return uuid.UUID(int=World.ids << 80, version=4)


uuid.uuid4 = next_id

from dstack._internal.utils import common as common_utils  # noqa: E402


class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        World.now += timedelta(microseconds=1)
        return World.now.astimezone(tz) if tz else World.now.replace(tzinfo=None)


common_utils.datetime = Clock

import dstack.version  # noqa: E402
import dstack._internal.server.services.encryption  # noqa: E402,F401
import dstack._internal.server.services.jobs.configurators.base as configurators  # noqa: E402
from dstack._internal.core.models.configurations import parse_apply_configuration  # noqa: E402
from dstack._internal.core.models.fleets import FleetSpec  # noqa: E402
from dstack._internal.core.models.instances import InstanceStatus  # noqa: E402
from dstack._internal.core.models.profiles import Profile  # noqa: E402
from dstack._internal.core.models.runs import RunSpec  # noqa: E402
from dstack._internal.server import models  # noqa: E402
from dstack._internal.server.db import Database, get_session_ctx, override_db  # noqa: E402
from dstack._internal.server.services import fleets as fleet_services  # noqa: E402
from dstack._internal.server.services import runs as run_services  # noqa: E402
from dstack._internal.server.services.docker import ImageConfig  # noqa: E402
from dstack._internal.server.testing import common as made  # noqa: E402
from sqlalchemy import StaticPool, select  # noqa: E402
from sqlalchemy.ext.asyncio import create_async_engine  # noqa: E402

logging.disable(logging.CRITICAL)
VERSION = dstack.version.__version__
IS_NEW = not VERSION.startswith("0.19.")
IMAGE = {"User": None, "Entrypoint": ["/bin/bash"], "Cmd": ["/bin/bash"]}
FACTS = {}

if IS_NEW:
    import gpuhunt
    import dstack._internal.server.background.pipeline_tasks.instances.ssh_deploy as ssh_deploy
    from dstack._internal.core.backends.base.compute import GoArchType
    from dstack._internal.server.background.pipeline_tasks import PipelineManager
    from dstack._internal.server.services.runner.client import InstanceCheck

    configurators._get_image_config_and_cpu_architectures = lambda *a, **k: (
        ImageConfig.model_validate(IMAGE), {gpuhunt.CPUArchitecture.X86},
    )
    ssh_deploy._deploy_instance = lambda details, *a, **k: (
        InstanceCheck(reachable=True), FACTS[details.host], GoArchType.AMD64,
    )
else:
    from dstack._internal.server.background.tasks import process_instances, process_runs, process_submitted_jobs
    from dstack._internal.server.services.runner.client import HealthStatus

    configurators._get_image_config = lambda *a, **k: ImageConfig.parse_obj(IMAGE)
    HEALTHY = HealthStatus(healthy=True, reason="OK")
    process_instances._deploy_instance = lambda details, *a, **k: (HEALTHY, FACTS[details.host], "amd64")
    process_instances._instance_healthcheck = lambda *a, **k: HEALTHY


class Server:
    """One world."""

    async def start(self):
        World.now, World.ids = BEGIN, 0
        FACTS.clear()
        url = "sqlite+aiosqlite://"
        engine = create_async_engine(url, connect_args={"check_same_thread": False}, poolclass=StaticPool)
        self.db = Database(url, engine=engine)
        override_db(self.db)
        async with self.db.engine.begin() as connection:
            await connection.run_sync(models.BaseModel.metadata.create_all)
        async with get_session_ctx() as session:
            self.key = made.get_ssh_key()
            user = await made.create_user(session)
            project = await made.create_project(
                session, owner=user, ssh_public_key=self.key.public, ssh_private_key=self.key.private
            )
            repo = await made.create_repo(session, project_id=project.id)
            self.user_id, self.project_id, self.repo = user.id, project.id, repo.name
        if IS_NEW:
            self.manager = PipelineManager()
            self.pipelines = {type(pipeline).__name__: pipeline for pipeline in self.manager._pipelines}

    async def stop(self):
        await self.db.engine.dispose()

    async def owners(self, session):
        async def one(model, key):
            return (await session.execute(select(model).where(model.id == key))).unique().scalar_one()

        return await one(models.ProjectModel, self.project_id), await one(models.UserModel, self.user_id)

    async def step(self, name):
        pipeline = self.pipelines[name]
        for item in await pipeline._fetcher.fetch(limit=1000):
            await pipeline._workers[0].process(item)

    async def add_fleet(self, fleet):
        hosts = []
        for host in fleet["hosts"]:
            facts = {
                "cpus": host["cpus"], "memory": host["memory_mib"] << 20, "disk_size": host["disk_mib"] << 20,
                "addresses": [f"10.0.0.{len(FACTS) + 1}/24"], "gpu_count": host["gpus"],
            }
            if host["gpus"]:
                facts.update(gpu_vendor="nvidia", gpu_name=host["gpu_name"], gpu_memory=host["gpu_memory_mib"])
                if not IS_NEW:
                    facts["gpu_memory"] = f"{host['gpu_memory_mib']} MiB"
            FACTS[host["name"]] = facts
            hosts.append({"hostname": host["name"], "blocks": host["blocks"], "identity_file": "/none"})
        configuration = parse_apply_configuration({
            "type": "fleet", "name": fleet["name"], "placement": fleet["placement"],
            "ssh_config": {"user": "ubuntu", "hosts": hosts},
        })
        configuration.ssh_config.ssh_key = self.key
        for host in configuration.ssh_config.hosts:
            host.ssh_key = self.key
        more = {"pipeline_hinter": self.manager.hinter} if IS_NEW else {}
        async with get_session_ctx() as session:
            project, user = await self.owners(session)
            spec = FleetSpec(configuration=configuration, profile=Profile(name="default"))
            await fleet_services.create_fleet(session=session, project=project, user=user, spec=spec, **more)
        if IS_NEW:
            World.now += timedelta(seconds=8)
            await self.step("InstancePipeline")
        else:
            for _ in fleet["hosts"]:
                await process_instances.process_instances()

    async def rows(self, model, order):
        async with get_session_ctx() as session:
            return (await session.execute(select(model).order_by(order))).unique().scalars().all()

    async def make_busy(self, fractions):
        async with get_session_ctx() as session:
            for row in (await session.execute(select(models.InstanceModel))).unique().scalars().all():
                if row.total_blocks is not None and row.status == InstanceStatus.IDLE:
                    row.busy_blocks = int(fractions[await self.host_of(row)] * row.total_blocks)
                    if row.busy_blocks:
                        row.status = InstanceStatus.BUSY
            await session.commit()

    async def host_of(self, row):
        details = json.loads(row.remote_connection_info)
        return details["host"]

    async def instances(self):
        found = []
        for row in await self.rows(models.InstanceModel, models.InstanceModel.id):
            name = await self.host_of(row)
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

    def run_spec(self, run):
        configuration = {
            "type": "task", "name": "run-a", "image": "debian", "nodes": run["nodes"], "commands": ["x"],
            "resources": run["resources"],
        }
        profile = {"name": "default", "creation_policy": run["creation_policy"]}
        if "fleets" in run:
            profile["fleets"] = run["fleets"]
        return RunSpec(
            run_name="run-a", repo_id=self.repo, repo_data=made.LocalRunRepoData(repo_dir="/"),
            configuration_path="dstack.yaml", configuration=parse_apply_configuration(configuration),
            profile=Profile(**profile), ssh_key_pub="ssh-rsa k",
        )

    async def plan(self, spec, hosts):
        more = {"full_offers": False, "unallocated_resources": False, "for_offers_only": False} if IS_NEW else {}
        async with get_session_ctx() as session:
            project, user = await self.owners(session)
            plan = await run_services.get_plan(
                session=session, project=project, user=user, run_spec=spec, max_offers=None, **more
            )
        by_disk = {host["disk_mib"]: host["name"] for host in hosts}

        def seen(offer):
            resources = offer.instance.resources
            return {
                "instance": by_disk[int(resources.disk.size_mib)], "blocks": offer.blocks,
                "total_blocks": offer.total_blocks, "cpus": resources.cpus, "memory_mib": int(resources.memory_mib),
                "gpus": [[gpu.name, int(gpu.memory_mib)] for gpu in resources.gpus],
                "availability": offer.availability.value,
            }

        plans = [[seen(offer) for offer in job.offers] for job in plan.job_plans]
        return plans[0], all(other == plans[0] for other in plans)

    async def submit(self, spec):
        more = {"pipeline_hinter": self.manager.hinter} if IS_NEW else {}
        async with get_session_ctx() as session:
            project, user = await self.owners(session)
            await run_services.submit_run(session=session, user=user, project=project, run_spec=spec, **more)

    async def round(self, nodes):
        World.now += timedelta(seconds=6)
        if IS_NEW:
            await self.step("JobSubmittedPipeline")
            await self.step("RunPipeline")
            return
        for _ in range(nodes):
            await process_submitted_jobs.process_submitted_jobs()
        await process_runs.process_runs()

    async def newly_assigned(self, known, number):
        names = {row.id: await self.host_of(row) for row in await self.rows(models.InstanceModel, models.InstanceModel.id)}
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
        await server.add_fleet(fleet)
    await server.make_busy({host["name"]: host["busy_fraction"] for host in hosts})
    found = {"instances": await server.instances()}
    spec = server.run_spec(case["run"])
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
    run = (await server.rows(models.RunModel, models.RunModel.id))[0]
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

"""A server of whatever dstack this Python has installed, in a world of its own: an empty in-memory database, ids and a clock
that begin anew with each case. To be imported before anything of dstack is.

Nothing of dstack is changed but what would leave the machine: the clock, the ids (so that rows are in order of creation),
the registry of images, and the deployment to a host, which answers with the facts of the case.
"""

import json
import logging
import os
import sys
import tempfile
import uuid
from datetime import datetime, timedelta, timezone

os.environ.setdefault("DSTACK_SERVER_DIR", tempfile.mkdtemp(prefix="dstack-world-"))
# What dstack prints goes to the other channel.
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class World:
    now = BEGIN
    ids = 0


def pass_time(seconds):
    World.now += timedelta(seconds=seconds)


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
# Pipelines in the place of the loops of 0.19.
HAS_PIPELINES = not VERSION.startswith("0.19.")
IMAGE = {"User": None, "Entrypoint": ["/bin/bash"], "Cmd": ["/bin/bash"]}
# What each host reports, by its name.
FACTS = {}

if HAS_PIPELINES:
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
    from dstack._internal.server.background.tasks import process_instances
    from dstack._internal.server.services.runner.client import HealthStatus

    configurators._get_image_config = lambda *a, **k: ImageConfig.parse_obj(IMAGE)
    HEALTHY = HealthStatus(healthy=True, reason="OK")
    process_instances._deploy_instance = lambda details, *a, **k: (HEALTHY, FACTS[details.host], "amd64")
    process_instances._instance_healthcheck = lambda *a, **k: HEALTHY


def host_of(instance):
    return json.loads(instance.remote_connection_info)["host"]


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
        if HAS_PIPELINES:
            self.manager = PipelineManager()
            self.pipelines = {type(pipeline).__name__: pipeline for pipeline in self.manager._pipelines}

    async def stop(self):
        await self.db.engine.dispose()

    def hinter(self):
        return {"pipeline_hinter": self.manager.hinter} if HAS_PIPELINES else {}

    async def owners(self, session):
        async def one(model, key):
            return (await session.execute(select(model).where(model.id == key))).unique().scalar_one()

        return await one(models.ProjectModel, self.project_id), await one(models.UserModel, self.user_id)

    async def step(self, name, after_each=None):
        pipeline = self.pipelines[name]
        for item in await pipeline._fetcher.fetch(limit=1000):
            await pipeline._workers[0].process(item)
            if after_each:
                await after_each(item)

    async def rows(self, model, order=None):
        async with get_session_ctx() as session:
            query = select(model).order_by(model.id if order is None else order)
            return (await session.execute(query)).unique().scalars().all()

    async def add_fleet(self, name, placement, hosts):
        """Hosts of `name`, `cpus`, `memory_mib`, `disk_mib`, `blocks`, `gpus`, `gpu_name`, `gpu_memory_mib`."""
        for host in hosts:
            facts = {
                "cpus": host["cpus"], "memory": host["memory_mib"] << 20, "disk_size": host["disk_mib"] << 20,
                "addresses": [f"10.0.0.{len(FACTS) + 1}/24"], "gpu_count": host["gpus"],
            }
            if host["gpus"]:
                facts.update(gpu_vendor="nvidia", gpu_name=host["gpu_name"], gpu_memory=host["gpu_memory_mib"])
                if not HAS_PIPELINES:
                    facts["gpu_memory"] = f"{host['gpu_memory_mib']} MiB"
            FACTS[host["name"]] = facts
        configuration = parse_apply_configuration({
            "type": "fleet", "name": name, "placement": placement,
            "ssh_config": {"user": "ubuntu", "hosts": [
                {"hostname": host["name"], "blocks": host["blocks"], "identity_file": "/none"} for host in hosts
            ]},
        })
        configuration.ssh_config.ssh_key = self.key
        for host in configuration.ssh_config.hosts:
            host.ssh_key = self.key
        async with get_session_ctx() as session:
            project, user = await self.owners(session)
            spec = FleetSpec(configuration=configuration, profile=Profile(name="default"))
            await fleet_services.create_fleet(session=session, project=project, user=user, spec=spec, **self.hinter())
        if HAS_PIPELINES:
            pass_time(8)
            await self.step("InstancePipeline")
            return
        # Each time the least recently looked at comes first, and those that are deployed are looked at too.
        for _ in range(1000):
            if all(row.status != InstanceStatus.PENDING for row in await self.rows(models.InstanceModel)):
                return
            await process_instances.process_instances()
        raise TimeoutError("a host is never deployed")

    def run_spec(self, name, configuration, profile):
        """A task of one command, with what it and its profile say besides."""
        configuration = {"type": "task", "name": name, "image": "debian", "commands": ["x"], **configuration}
        return RunSpec(
            run_name=name, repo_id=self.repo, repo_data=made.LocalRunRepoData(repo_dir="/"),
            configuration_path="dstack.yaml", configuration=parse_apply_configuration(configuration),
            profile=Profile(**{"name": "default", **profile}), ssh_key_pub="ssh-rsa k",
        )

    async def submit(self, spec):
        async with get_session_ctx() as session:
            project, user = await self.owners(session)
            await run_services.submit_run(session=session, user=user, project=project, run_spec=spec, **self.hinter())

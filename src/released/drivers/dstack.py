"""Drives the server of a released dstack, 0.18.44 to 0.22.5.

dstack's own tables are made in a database in memory. Runs are submitted through its own `submit_run`, and its own
background steps (loops before 0.20.13, pipelines after) are stepped by hand, one round at a time, by a clock that
dryrack sets. Which instance and how many blocks a job gets is what they wrote. Nothing tests the version: a name that
only some releases have is looked for.
"""

import asyncio
import importlib
import inspect
import itertools
import json
import logging
import os
import re
import time
import types
import uuid
from datetime import datetime, timedelta, timezone

import dryrack_driver as shared
from dryrack_driver import Fault

os.environ["DSTACK_SERVER_DIR"] = os.path.join(shared.home, "server")
os.environ["GIT_PYTHON_REFRESH"] = "quiet"  # it starts `git` when it is imported, to see whether it is there

_numbers = itertools.count(1)
uuid.uuid4 = lambda: uuid.UUID(int=next(_numbers) << 80, version=4)  # rows sort in the order in which they were made

from dstack._internal.utils import common as dstack_common


class Clock(datetime):
    """dstack's clock. It moves by a microsecond with each reading, so that no two rows have the same time."""

    at = BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)

    @classmethod
    def now(cls, tz=None):
        Clock.at += timedelta(microseconds=1)
        return Clock.at.astimezone(tz) if tz else Clock.at.replace(tzinfo=None)


dstack_common.datetime = Clock

import requests

_post, asked_of_clouds = requests.post, []


def _no_cloud(url, **_):
    """Some releases of gpuhunt ask a cloud for its GPUs when they are imported. No cloud is used, so it has none."""
    asked_of_clouds.append(url)
    return types.SimpleNamespace(raise_for_status=lambda: None, json=lambda: {"data": {"gpuTypes": [], "dataCenters": []}})


requests.post = _no_cloud

import dstack.version
import dstack._internal.server.services.encryption  # noqa: F401  (registers how columns are encrypted)
import dstack._internal.server.services.jobs.configurators.base as configurators
from dstack._internal.core.models.configurations import TaskConfiguration, parse_apply_configuration
from dstack._internal.core.models.fleets import FleetSpec
from dstack._internal.core.models.instances import InstanceOfferWithAvailability, InstanceStatus, SSHKey
from dstack._internal.core.models.profiles import Profile
from dstack._internal.core.models.repos.local import LocalRunRepoData
from dstack._internal.core.models.runs import JobProvisioningData, JobRuntimeData, RunSpec
from dstack._internal.server import models
from dstack._internal.server.db import Database, get_session_ctx, override_db
from dstack._internal.server.services import fleets as fleet_services
from dstack._internal.server.services import runs as run_services
from dstack._internal.server.services.docker import ImageConfig
from dstack._internal.server.testing import common as testing
from sqlalchemy import StaticPool, delete, select
from sqlalchemy.ext.asyncio import create_async_engine

requests.post = _post
logging.disable(logging.CRITICAL)

BACKGROUND = "dstack._internal.server.background."
UNSTATED_DISK = 1 << 30  # MiB; dstack's hosts always report one, and what a scenario does not state excludes nothing
RUNNING = ("pipeline_tasks.jobs_running", "scheduled_tasks.running_jobs", "tasks.process_running_jobs")
ROUND = timedelta(seconds=6)  # the longest of the usual intervals at which upstream looks at a row again


def driver():
    return Driver()


def optional(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name and name.startswith(missing.name):
            return None
        raise


def parse(model, fields):
    return (model.model_validate if hasattr(model, "model_validate") else model.parse_obj)(fields)


def dump(model):
    return model.model_dump_json() if hasattr(model, "model_dump_json") else model.json()


def fields_of(model):
    return getattr(model, "model_fields", None) or model.__fields__


def ssh_key():
    """A key that nothing is opened with; some releases check its form."""
    return testing.get_ssh_key() if hasattr(testing, "get_ssh_key") else SSHKey(public="ssh-rsa key", private="key")


def call(function, **have):
    """Calls with those arguments that this release takes."""
    takes = inspect.signature(function).parameters
    return function(**{name: value for name, value in have.items() if name in takes})


class Driver:
    name, can = "dstack", ["again"]

    def __init__(self):
        self.version = dstack.version.__version__
        self.understood = set()
        self.stand_ins = shared.StandIns()
        self.hosts = {}
        self.wants, self.policy = [], None
        self.loop = asyncio.new_event_loop()
        self._replace()
        self.steps = Steps()
        self.server = Server(self.steps)
        self.kept = None
        self.first_number = next(_numbers) + 1

    # --- stand-ins ---

    def _replace(self):
        stands = self.stand_ins
        stands.state("database", "the database server", "dstack's own tables in memory, filled from fleets, instances and runs")
        stands.state("clock", "dstack._internal.utils.common.datetime", "the virtual time")
        stands.state("ids", "uuid.uuid4", "a counter, so rows sort in the order in which they were made")
        if asked_of_clouds:
            stands.state("clouds", ", ".join(sorted(set(asked_of_clouds))), "clouds have no GPUs; none is used")
        image = parse(ImageConfig, {"User": None, "Entrypoint": ["/bin/bash"], "Cmd": ["/bin/bash"]})
        if hasattr(configurators, "_get_image_config_and_cpu_architectures"):
            import gpuhunt
            answer, seam = (image, {gpuhunt.CPUArchitecture.X86}), "_get_image_config_and_cpu_architectures"
        else:
            answer, seam = image, "_get_image_config"
        if not hasattr(configurators, seam):
            raise Fault("seam_missing", f"{configurators.__name__}.{seam} is nowhere to be replaced")
        stands.replace("image", getattr(configurators, seam), lambda *a, **k: stands.hit("image", answer), "every image is a plain one for x86")
        for module in (optional(BACKGROUND + "pipeline_tasks.instances.ssh_deploy"), optional(BACKGROUND + "tasks.process_instances"),
                       optional(BACKGROUND + "scheduled_tasks.instances")):
            if module is not None and hasattr(module, "_deploy_instance"):
                stands.state("deploy", f"{module.__name__}._deploy_instance", "what the hosts of a record report")
                module._deploy_instance = self._deployed
                if hasattr(module, "_instance_healthcheck"):
                    stands.state("health", f"{module.__name__}._instance_healthcheck", "the hosts of a record are healthy")
                    module._instance_healthcheck = lambda *a, **k: stands.hit("health", self._healthy())
        for name, module in (("stop_runner", "dstack._internal.server.services.jobs"), ("stop_container", "dstack._internal.server.services.jobs"),
                             ("_stop_container", BACKGROUND + "pipeline_tasks.jobs_terminating"),
                             ("_drain_job_logs", BACKGROUND + "pipeline_tasks.jobs_terminating"),
                             ("stop_runner", BACKGROUND + "pipeline_tasks.jobs_terminating")):
            found = optional(module)
            if found is not None and hasattr(found, name):
                label = f"{module.rsplit('.', 1)[1]}.{name}"
                stands.state(label, f"{module}.{name}", "the container stops at once")
                setattr(found, name, self._stopped(label))

    def _stopped(self, label):
        async def stopped(*args, **kwargs):
            return self.stand_ins.hit(label, True)
        return stopped

    @staticmethod
    def _healthy():
        from dstack._internal.server.services.runner.client import HealthStatus
        return HealthStatus(healthy=True, reason="OK")

    def _deployed(self, remote, *args, **kwargs):
        info = self.stand_ins.hit("deploy", self.hosts[remote.host])
        try:
            from dstack._internal.server.services.runner.client import InstanceCheck
            from dstack._internal.core.backends.base.compute import GoArchType
            return InstanceCheck(reachable=True), info, GoArchType.AMD64
        except ImportError:
            return self._healthy(), info, "amd64"

    def options(self, data):
        unknown = set(data) - {"utilization_policy"}
        if unknown:
            raise Fault("unmapped", f"the driver of dstack has no option {', '.join(sorted(unknown))}; it has: utilization_policy")
        if "utilization_policy" in data:
            modules = [optional(BACKGROUND + name) for name in RUNNING]
            self.policy = shared.beside("dstack_policy").Policy(self, data["utilization_policy"], [module for module in modules if module])
            self.wants = ["usage"]

    # --- the protocol ---

    def begin_again(self):
        """The next question makes a new database; time and ids begin again."""
        global _numbers
        if self.policy is not None:
            raise Fault("unmapped", "a driver with a policy decides one world in a process")
        self.kept, Clock.at, _numbers = None, Clock.BEGIN, itertools.count(self.first_number)

    def changed(self, world):
        pass

    def decide(self, world, waiting):
        if self.kept is None:
            self.kept = Kept(self.server, self.policy)
            self.loop.run_until_complete(self.server.start())
        return self.loop.run_until_complete(self._decide(world, waiting))

    async def _decide(self, world, waiting):
        Clock.at = max(Clock.at, Clock.BEGIN + timedelta(microseconds=world.now // 1000))
        self.stand_ins.begin()
        fresh = await self.kept.show(world, waiting)
        if fresh:
            self.stand_ins.must_have_been("image", "a run was submitted")
        await self.steps.round(len(waiting))
        decisions, unsettled = await self.kept.read(waiting)
        pauses = [ROUND] if unsettled else []
        if self.policy is not None:
            decisions += await self.kept.policed(world)
            pauses += [self.policy.every] if self.policy.watched else []
        return {"decisions": decisions, **({"wake_at": world.now + int(min(pauses).total_seconds()) * 10**9} if pauses else {})}

    # --- records ---

    def compare(self, case):
        answer = case["answer"].get(self.version) if "answer" in case and isinstance(case["answer"], dict) else None
        if answer is None or not ("fleets" in case or "instances" in case.get("fleet", {})):
            return None
        now = self.loop.run_until_complete(self._recorded(case))
        differs = {key: {"recorded": answer[key], "now": now[key]} for key in now if key in answer and not same(answer[key], now[key])}
        return {"id": case["id"], "differs": differs, "took": self.took}

    async def _recorded(self, case):
        Clock.at = Clock.BEGIN
        await self.server.start()
        nodes = case["run"]["nodes"]
        if "fleets" in case:
            for fleet in case["fleets"]:
                await self.server.deploy(fleet, self.hosts)
            await self.server.make_busy({host["name"]: host["busy_fraction"] for fleet in case["fleets"] for host in fleet["hosts"]})
        else:
            await self.server.add_fleet(case["fleet"]["name"], "cloud", case["fleet"]["placement"], len(case["fleet"]["instances"]))
            for number, stated in enumerate(case["fleet"]["instances"]):
                await self.server.add_instance(case["fleet"]["name"], number, instance_of_record(stated, case["fleet"]["backend"]))
        profile = {"name": "default", "creation_policy": case["run"]["creation_policy"]}
        if case["run"].get("fleets"):
            profile["fleets"] = case["run"]["fleets"]
        spec = self.server.spec("run-00", nodes, case["run"]["resources"], profile)
        plan = await self.server.plan(spec)
        begun = time.perf_counter()
        await self.server.submit(spec)
        assigned, seen = [], set()
        for round_ in range(20):
            Clock.at += ROUND
            await self.steps.round(nodes, only=("submitted", "runs"))
            jobs = await self.server.jobs("run-00")
            for job in jobs:
                if job["instance"] and (job["job"], job["submission"]) not in seen:
                    seen.add((job["job"], job["submission"]))
                    assigned.append({"job": job["job"], "round": round_, **{key: job[key] for key in ("instance", "blocks", "total_blocks", "network", "region")}})
            if not any(job["status"] == "submitted" for job in jobs):
                break
        self.took = time.perf_counter() - begun
        instances = await self.server.instances()
        status, reason = await self.server.run("run-00")
        return {"plan_offers": plan, "assigned": assigned, "run": {"status": status, "reason": reason},
                "jobs": [{key: job[key] for key in ("job", "submission", "status", "reason", "message")} for job in jobs],
                "busy_after": {name: busy for name, busy in instances.items() if busy or "fleet" in case}}


def same(recorded, now):
    """Equal in all that the record states."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return all(same(recorded[key], now[key]) for key in recorded.keys() & now.keys()) and (
            recorded.keys() == now.keys() if all(isinstance(value, int) for value in [*recorded.values(), *now.values()]) else True)
    if isinstance(recorded, list) and isinstance(now, list):
        return len(recorded) == len(now) and all(map(same, recorded, now))
    return recorded == now


def instance_of_record(stated, backend):
    return {"name": stated["name"], "backend": backend, "region": stated["region"], "price": stated["price"], "spot": False,
            "cpus": stated["cpus"], "memory_mib": stated["memory_mib"], "disk_mib": 102400, "total_blocks": stated["total_blocks"],
            "busy_blocks": stated["busy_blocks"],
            "gpus": [{"name": stated["gpu_name"], "memory_mib": stated["gpu_memory_mib"], "vendor": "nvidia"}] * stated["gpus"]}


class Steps:
    """The background work of the server, one step of each kind."""

    KINDS = {"submitted": ("JobSubmittedPipeline", "submitted_jobs"), "terminating": ("JobTerminatingPipeline", "terminating_jobs"),
             "runs": ("RunPipeline", "runs"), "fleets": ("FleetPipeline", "fleets"), "instances": ("InstancePipeline", "instances")}

    def __init__(self):
        found = optional(BACKGROUND + "pipeline_tasks")
        self.manager = found.PipelineManager() if found else None
        self.pipelines = {type(pipeline).__name__: pipeline for pipeline in self.manager._pipelines} if found else {}
        self.hinter = self.manager.hinter if self.manager and hasattr(self.manager, "hinter") else types.SimpleNamespace(hint_fetch=lambda *a: None)
        self.loops = {}
        for kind, (pipeline, loop) in self.KINDS.items():
            if pipeline in self.pipelines:
                continue
            module = optional(BACKGROUND + f"scheduled_tasks.{loop}") or optional(BACKGROUND + f"tasks.process_{loop}")
            step = module and getattr(module, f"process_{loop}", None)
            if step is None:
                if kind in ("submitted", "runs"):
                    raise Fault("seam_missing", f"neither {pipeline} nor process_{loop} is in this release")
                continue
            self.loops[kind] = step

    async def step(self, kind, most=1000):
        """Everything that is due, one after the other; a loop does one thing in each call."""
        pipeline = self.pipelines.get(self.KINDS[kind][0])
        if pipeline is not None:
            for item in await pipeline._fetcher.fetch(limit=most):
                await pipeline._workers[0].process(item)
        elif kind in self.loops:
            for _ in range(most if most < 1000 else 1):
                await self.loops[kind]()

    async def round(self, jobs, only=("submitted", "terminating", "runs")):
        for kind in only:
            is_loop = kind in self.loops
            await self.step(kind, max(1, jobs) if is_loop and kind != "runs" else 1 if is_loop else 1000)


class Server:
    """The server's tables, and what users do with them."""

    def __init__(self, steps):
        self.steps, self.database = steps, None

    async def start(self):
        if self.database is not None:
            await self.database.engine.dispose()
        engine = create_async_engine("sqlite+aiosqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        self.database = Database("sqlite+aiosqlite://", engine=engine)
        override_db(self.database)
        async with engine.begin() as connection:
            await connection.run_sync(models.BaseModel.metadata.create_all)
        async with get_session_ctx() as session:
            key = ssh_key()
            user = await testing.create_user(session)
            project = await testing.create_project(session, owner=user, ssh_public_key=key.public, ssh_private_key=key.private)
            repo = await testing.create_repo(session, project_id=project.id)
            self.ids = user.id, project.id
            self.repo = repo.name
            self.pool = (await testing.create_pool(session, project)).id if hasattr(testing, "create_pool") else None
            if self.pool is not None:
                project.default_pool_id = self.pool
                await session.commit()

    async def _who(self, session):
        user, project = self.ids
        return {"user": (await session.execute(select(models.UserModel).where(models.UserModel.id == user))).unique().scalar_one(),
                "project": (await session.execute(select(models.ProjectModel).where(models.ProjectModel.id == project))).unique().scalar_one()}

    def spec(self, name, nodes, resources, profile, priority=None, policy=None):
        task = {"type": "task", "name": name, "image": "debian", "nodes": nodes, "commands": ["x"], "resources": resources}
        if priority is not None:
            if "priority" not in fields_of(TaskConfiguration):
                raise Fault("unmapped", "this release of dstack has no priorities")
            task["priority"] = priority
        if policy is not None:
            policy.of(profile, task)
        return RunSpec(
            run_name=name, repo_id=self.repo, repo_data=LocalRunRepoData(repo_dir="/"), configuration_path="dstack.yaml",
            configuration=parse_apply_configuration(task), profile=parse(Profile, profile), ssh_key_pub="ssh-rsa k")

    async def plan(self, spec):
        async with get_session_ctx() as session:
            plan = await call(run_services.get_plan, session=session, run_spec=spec, max_offers=None, full_offers=False,
                              unallocated_resources=False, for_offers_only=False, **await self._who(session))
            names = {}
            for row in (await session.execute(select(models.InstanceModel))).unique().scalars().all():
                if row.offer:
                    names[json.loads(row.offer)["instance"]["resources"]["disk"]["size_mib"]] = row.name
        return [{"instance": names.get(offer.instance.resources.disk.size_mib), "blocks": offer.blocks, "total_blocks": offer.total_blocks,
                 "cpus": offer.instance.resources.cpus, "memory_mib": offer.instance.resources.memory_mib, "availability": offer.availability.value,
                 "gpus": [[gpu.name, gpu.memory_mib] for gpu in offer.instance.resources.gpus]} for offer in plan.job_plans[0].offers]

    async def submit(self, spec):
        async with get_session_ctx() as session:
            return await call(run_services.submit_run, session=session, run_spec=spec, pipeline_hinter=self.steps.hinter, **await self._who(session))

    async def deploy(self, fleet, reported):
        """Creates an SSH fleet through the server's own code; its hosts report what the record says."""
        key, hosts = ssh_key(), {}
        for number, host in enumerate(fleet["hosts"], len(reported) + 1):
            info = {"cpus": host["cpus"], "memory": host["memory_mib"] * 1024**2, "disk_size": host["disk_mib"] * 1024**2,
                    "addresses": [f"10.0.{number >> 8 & 255}.{number & 255}/16"], "gpu_count": host["gpus"]}
            if host["gpus"]:
                info.update(gpu_vendor="nvidia", gpu_name=host["gpu_name"], gpu_memory=host["gpu_memory_mib"])
            reported[host["name"]] = hosts[host["name"]] = info
        stated = {"type": "fleet", "name": fleet["name"], "placement": fleet["placement"], "ssh_config": {"user": "ubuntu", "hosts": [
            {"hostname": host["name"], "blocks": host["blocks"], "identity_file": "/x"} for host in fleet["hosts"]]}}
        configuration = parse_apply_configuration(stated)
        configuration.ssh_config.ssh_key = key
        for host in configuration.ssh_config.hosts:
            host.ssh_key = key
        async with get_session_ctx() as session:
            await call(fleet_services.create_fleet, session=session, spec=FleetSpec(configuration=configuration, profile=Profile(name="default")),
                       pipeline_hinter=self.steps.hinter, **await self._who(session))
            names = [host["name"] for host in fleet["hosts"]]
            rows = (await session.execute(select(models.InstanceModel).order_by(models.InstanceModel.id))).unique().scalars().all()
            for row in rows:
                host = json.loads(row.remote_connection_info)["host"] if row.remote_connection_info else None
                if host in names:
                    row.name = host
            await session.commit()
        Clock.at += timedelta(seconds=8)
        # A loop takes the row that waits longest, which may be one that is up already.
        for _ in range(10 * (len(reported) + 1)):
            await self.steps.step("instances")
            if not await self._are_pending():
                break
        else:
            raise Fault("driver_failed", f"the hosts of {fleet['name']} are not up")

    async def _are_pending(self):
        async with get_session_ctx() as session:
            found = select(models.InstanceModel.id).where(models.InstanceModel.status.in_([InstanceStatus.PENDING, InstanceStatus.PROVISIONING]))
            return (await session.execute(found)).scalars().first() is not None

    async def make_busy(self, fractions):
        async with get_session_ctx() as session:
            for row in (await session.execute(select(models.InstanceModel))).unique().scalars().all():
                if row.total_blocks and row.status == InstanceStatus.IDLE:  # a host that cannot be split is terminated
                    row.busy_blocks = int(fractions[row.name] * row.total_blocks)
                    if row.busy_blocks:
                        row.status = InstanceStatus.BUSY
            await session.commit()

    async def add_fleet(self, name, kind, placement, size, limits=None, blocks=1):
        stated = {"type": "fleet", "name": name, "placement": placement}
        if kind == "ssh":
            stated["ssh_config"] = {"user": "ubuntu", "identity_file": "/x", "hosts": [f"host-{number}" for number in range(max(1, size))]}
        else:
            stated["nodes"] = f"0..{limits['max'] if limits and limits['max'] is not None else max(1, size)}"
            # Without blocks, dstack takes a fleet whose instances are all busy for full, although blocks of them are free.
            if blocks == "auto" or isinstance(blocks, int) and blocks != 1:
                stated["blocks"] = blocks
        configuration = parse_apply_configuration(stated)
        if kind == "ssh":
            configuration.ssh_config.ssh_key = ssh_key()
        async with get_session_ctx() as session:
            who = await self._who(session)
            await call(testing.create_fleet, session=session, project=who["project"], name=name, created_at=Clock.now(timezone.utc),
                       spec=FleetSpec(configuration=configuration, profile=Profile(name="default")))

    async def add_instance(self, fleet, number, stated):
        async with get_session_ctx() as session:
            who = await self._who(session)
            row = (await session.execute(select(models.FleetModel).where(models.FleetModel.name == fleet))).unique().scalar_one()
            resources = {"cpus": stated["cpus"], "memory_mib": stated["memory_mib"], "gpus": stated["gpus"], "spot": stated["spot"],
                         "disk": {"size_mib": stated["disk_mib"]}, "description": ""}
            kind = {"name": "ssh" if stated["backend"] == "remote" else "instance", "resources": resources}
            offer = parse(InstanceOfferWithAvailability, {"backend": stated["backend"], "instance": kind, "region": stated["region"],
                                                          "price": stated["price"], "availability": "available", "instance_runtime": "shim"})
            provisioned = parse(JobProvisioningData, {
                "backend": stated["backend"], "instance_type": kind, "instance_id": stated["name"], "hostname": "127.0.0.4", "internal_ip": "127.0.0.4",
                "region": stated["region"], "price": stated["price"], "username": "ubuntu", "ssh_port": 22, "dockerized": True, "backend_data": None,
                "ssh_proxy": None})
            extra = {"pool": await session.get(models.PoolModel, self.pool)} if self.pool is not None else {}
            made = await call(testing.create_instance, session=session, project=who["project"], fleet=row, name=stated["name"], instance_num=number,
                              backend=offer.backend, region=stated["region"], spot=stated["spot"], price=stated["price"], offer=offer,
                              job_provisioning_data=provisioned, total_blocks=stated["total_blocks"], busy_blocks=stated["busy_blocks"],
                              status=InstanceStatus.BUSY if stated["busy_blocks"] else InstanceStatus.IDLE, created_at=Clock.now(timezone.utc),
                              last_processed_at=Clock.now(timezone.utc), **extra)
            made.price = stated["price"]
            await session.commit()
            return made.id

    async def instances(self):
        async with get_session_ctx() as session:
            rows = (await session.execute(select(models.InstanceModel).order_by(models.InstanceModel.id))).unique().scalars().all()
            return {row.name: row.busy_blocks for row in rows}

    async def jobs(self, run):
        """The latest submission of each job of a run."""
        async with get_session_ctx() as session:
            rows = (await session.execute(select(models.JobModel).where(models.JobModel.run_name == run).order_by(models.JobModel.id))).unique().scalars().all()
            instances = {row.id: row for row in (await session.execute(select(models.InstanceModel))).unique().scalars().all()}
            latest = {}
            for row in rows:
                if row.job_num not in latest or latest[row.job_num].submission_num < row.submission_num:
                    latest[row.job_num] = row
            return [self._job(row, instances) for _, row in sorted(latest.items())]

    @staticmethod
    def _job(row, instances):
        instance = instances.get(row.used_instance_id)
        data = parse(JobRuntimeData, json.loads(row.job_runtime_data)) if row.job_runtime_data else None
        offer = data.offer if data else None
        return {"job": row.job_num, "submission": row.submission_num, "status": row.status.value, "id": row.id,
                "reason": row.termination_reason.value if row.termination_reason else None, "message": row.termination_reason_message,
                "instance": instance.name if instance else None, "region": instance.region if instance else None,
                "blocks": offer.blocks if offer else None, "total_blocks": offer.total_blocks if offer else None,
                "network": data.network_mode.value if data else None}

    async def run(self, name):
        async with get_session_ctx() as session:
            row = (await session.execute(select(models.RunModel).where(models.RunModel.run_name == name))).unique().scalars().first()
            if row is None:
                return None, None
            return row.status.value, row.termination_reason.value if row.termination_reason else None

    async def forget(self, name):
        """Deletes a run with its jobs: dryrack has taken it over, or it is over."""
        async with get_session_ctx() as session:
            run = (await session.execute(select(models.RunModel).where(models.RunModel.run_name == name))).unique().scalars().first()
            if run is None:
                return
            ids = [job.id for job in run.jobs] if "jobs" in run.__dict__ else [
                row for row in (await session.execute(select(models.JobModel.id).where(models.JobModel.run_id == run.id))).scalars().all()]
            for table in models.BaseModel.__subclasses__():
                for column in getattr(getattr(table, "__table__", None), "columns", []):
                    targets = {key.column.table.name for key in column.foreign_keys}
                    if "jobs" in targets and table is not models.InstanceModel and table is not models.JobModel and not column.nullable:
                        await session.execute(delete(table).where(column.in_(ids)))
            await session.execute(delete(models.JobModel).where(models.JobModel.id.in_(ids)))
            await session.execute(delete(models.RunModel).where(models.RunModel.id == run.id))
            await session.commit()

    async def set_busy(self, busy):
        """Sets the blocks that are taken of each instance, as dryrack counts them, and which are there at all."""
        async with get_session_ctx() as session:
            for row in (await session.execute(select(models.InstanceModel))).unique().scalars().all():
                taken, is_up = busy.get(row.name, (0, False))
                row.busy_blocks, row.unreachable = taken, not is_up
                row.status = InstanceStatus.BUSY if taken else InstanceStatus.IDLE
            await session.commit()


class Kept:
    """The runs that wait, as the server keeps them from one question to the next."""

    def __init__(self, server, policy=None):
        self.server, self.fleets, self.nodes, self.names, self.numbers = server, {}, {}, {}, itertools.count(1)
        self.policy = policy  # dstack's own, if the scenario states one
        self.refused = {}  # run: its jobs without a place, as of the question before

    async def show(self, world, waiting):
        """Makes the tables say what dryrack says. Returns how many runs were submitted."""
        for fleet in world.fleets.values():
            if fleet["name"] not in self.fleets:
                size = sum(1 for node in world.nodes.values() if node["instance"] and node["instance"]["fleet"] == fleet["name"])
                await self.server.add_fleet(fleet["name"], fleet["kind"], fleet["placement"], size, fleet["nodes"], fleet["blocks"])
                self.fleets[fleet["name"]] = fleet
        for node in world.nodes.values():
            at = node["instance"]
            if at is None:
                raise Fault("unmapped", f"in dstack each node is an instance of a fleet; `{node['name']}` is not")
            if node["state"] == "gone" or at["blocks"] is None:
                continue  # an offer of a cloud, or what was never split; neither is ever used
            if node["name"] not in self.nodes:
                number = sum(1 for kept in self.nodes.values() if kept == at["fleet"])
                await self.server.add_instance(at["fleet"], number, instance_of(node))
                self.nodes[node["name"]] = at["fleet"]
        for name in [name for name in self.names if name not in waiting]:
            await self._hand_over(name)
        fresh = 0
        for name in waiting:
            if name not in self.names:
                job = world.jobs[world.runs[name]["job"]]
                self.names[name] = f"run-{next(self.numbers):06d}"
                await self.server.submit(spec_of(self.server, self.names[name], job, world, self.policy))
                fresh += 1
        await self.server.set_busy(await self._busy(world))
        return fresh

    async def _busy(self, world):
        """What dryrack counts, and what the server has assigned to a run of which not every job has a place yet."""
        held = {}
        for name in self.names.values():
            for job in await self.server.jobs(name):
                if job["instance"] and job["status"] in ("submitted", "provisioning", "pulling", "running"):
                    held[job["instance"]] = held.get(job["instance"], 0) + (job["blocks"] or 1)
        return {name: (len(world.nodes[name]["instance"]["blocks_taken"]) + held.get(name, 0), world.nodes[name]["state"] == "ready")
                for name in self.nodes if name in world.nodes}

    async def read(self, waiting):
        decisions, unsettled = [], False
        for name in waiting:
            run = self.names[name]
            jobs, (status, reason) = await self.server.jobs(run), await self.server.run(run)
            if jobs and all(job["instance"] and job["status"] == "provisioning" for job in jobs):
                decisions.append({"do": "place", "run": name, "parts": [{"node": job["instance"], "blocks": job["blocks"]} for job in jobs]})
                if self.policy is None:
                    await self._hand_over(name)
                else:
                    await self.policy.take(name, self.names.pop(name))
                continue
            # A run is left out if no step has looked at it since it was last answered: nothing is decided about it yet.
            refused = {(job["job"], job["submission"]) for job in jobs if job["reason"]}
            is_decided = refused - self.refused.get(name, set()) or status in ("failed", "terminated")
            self.refused[name] = refused
            if not is_decided:
                unsettled = True
                continue
            texts = [f"job {job['job']}: {job['message'] or job['reason']}" for job in jobs if job["reason"]]
            text = "; ".join([f"run {status}" + (f" ({reason})" if reason else ""), *texts])
            if status in ("failed", "terminated"):
                decisions.append({"do": "refuse", "run": name, "text": text[:4096]})
                await self._hand_over(name)
                continue
            decisions.append({"do": "wait", "run": name, "text": text[:4096]})
            unsettled = True
        return decisions, unsettled

    async def policed(self, world):
        """Ends the runs that dstack's policy ends now."""
        for run in [run for run in self.policy.watched if run not in world.runs or world.runs[run]["ended"]]:
            await self.server.forget(self.policy.watched.pop(run))
        await self.policy.add(world.usage, Clock.BEGIN)
        world.usage = []
        decisions = []
        for run, message in (await self.policy.fired()).items():
            decisions.append({"do": "cancel", "run": run, "because": "utilization_policy", "text": message})
            await self.server.forget(self.policy.watched.pop(run))
        return decisions

    async def _hand_over(self, name):
        self.refused.pop(name, None)
        await self.server.forget(self.names.pop(name))


def instance_of(node):
    at = node["instance"]
    return {"name": node["name"], "backend": at["backend"], "region": at["region"], "price": (node["price_micros"] or 0) / 1e6, "spot": at["spot"],
            "cpus": node["cpu_milli"] // 1000, "memory_mib": node["ram"] >> 20, "disk_mib": at["disk"] >> 20 if at["disk"] else UNSTATED_DISK, "total_blocks": at["blocks"],
            "busy_blocks": len(at["blocks_taken"]),
            # dstack's names have neither hyphens nor the memory: a100-80g is its A100, rtx-3090 its RTX3090. It ignores case.
            "gpus": [{"name": re.sub(r"-\d+g$", "", gpu["type"], flags=re.IGNORECASE).replace("-", ""), "memory_mib": gpu["memory"] >> 20, "vendor": gpu["vendor"]} for gpu in node["gpus"]]}


def ranged(limits, unit=1, suffix=""):
    """A range in dstack's words."""
    low = "" if limits["min"] is None else f"{exact(limits['min'], unit)}{suffix}"
    high = "" if limits["max"] is None else f"{exact(limits['max'], unit)}{suffix}"
    return f"{low}..{high}"


def exact(amount, unit):
    return amount // unit if amount % unit == 0 else amount / unit


def must_be_known(backends):
    """From 0.19 on, dstack leaves a cloud whose packages are not installed out of those that run several nodes. On a
    server with these packages it does not, so the answer would not be dstack's."""
    if optional("dstack._internal.core.backends.features") is None:
        return
    known = {kind.value for kind in optional("dstack._internal.core.backends.configurators").list_available_backend_types()}
    lacking = sorted(set(backends) - known - {"remote"})
    if lacking:
        raise Fault("unmapped", f"the packages of the cloud {lacking[0]} are not installed, so dstack would refuse runs of several "
                    f"nodes on its instances; of {', '.join(sorted(known))} they are not needed")


def spec_of(server, name, job, world, policy=None):
    needs, terms = job["requirements"], job["terms"] or {}
    if needs is None:
        raise Fault("unmapped", f"dstack places requirements; job `{job['name']}` asks for something else")
    resources = {"cpu": ranged(needs["cpu"]), "memory": ranged(needs["memory"], 1 << 20, "MB")}
    if needs["disk"]:
        resources["disk"] = ranged(needs["disk"], 1 << 20, "MB")
    gpu = needs["gpu"]
    if gpu:
        stated = {"count": ranged(gpu["count"])}
        for key in ("vendor", "compute_capability"):
            if gpu[key]:
                stated[key] = gpu[key]
        if gpu["names"]:
            stated["name"] = list(gpu["names"])
        for key in ("memory", "total_memory"):
            if gpu[key]:
                stated[key] = ranged(gpu[key], 1 << 20, "MB")
        resources["gpu"] = stated
    profile = {"name": "default", "creation_policy": needs["creation"].replace("_", "-"), "spot_policy": needs["spot"].replace("_", "")
               if needs["spot"] != "on_demand" else "on-demand"}
    if any(fleet["offers"] for fleet in world.fleets.values()) and needs["creation"] != "reuse":
        raise Fault("unmapped", f"dstack's driver makes no instances; job `{job['name']}` may have one made (say `creation_policy: reuse`)")
    if job["tasks"] > 1:
        must_be_known(node["instance"]["backend"] for node in world.nodes.values() if node["instance"])
    for ours, theirs in (("fleets", "fleets"), ("backends", "backends"), ("regions", "regions")):
        if needs[ours]:
            profile[theirs] = list(needs[ours])
    if needs["max_price_micros"] is not None:
        profile["max_price"] = needs["max_price_micros"] / 1e6
    retry = terms.get("retry")
    if retry:
        events = [event.replace("_", "-") for event in retry["on"]]
        profile["retry"] = {"on_events": events, **({"duration": f"{retry['duration_ns'] // 10**9}s"} if retry.get("duration_ns") else {})}
    return server.spec(name, job["tasks"], resources, profile, job["priority"] or None, policy)

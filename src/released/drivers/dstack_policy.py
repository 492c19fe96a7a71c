"""dstack's own utilization policy: `_check_gpu_utilization` on the rows of a run that is up, with the samples of the
scenario. The policy is stated as `driver: {utilization_policy: {min_gpu_utilization: 50, time_window: 300, in: profile}}`;
`in` says whether the run's profile or its configuration states it.
"""

import inspect
import itertools
import json
import types
from datetime import timedelta

from dryrack_driver import Fault
from dstack._internal.core.models.runs import JobSpec, JobStatus
from dstack._internal.server import models
from dstack._internal.server.db import get_session_ctx
from sqlalchemy import select

EVERY = timedelta(seconds=4)  # how often upstream's loop looks at a running job, at most
KEYS = {"min_gpu_utilization", "time_window", "in"}


class Policy:
    every = EVERY

    def __init__(self, driver, stated, modules):
        if not isinstance(stated, dict) or set(stated) != KEYS or stated["in"] not in ("profile", "configuration"):
            raise Fault("unmapped", "`utilization_policy` states `min_gpu_utilization`, `time_window` in seconds, and `in`: profile or configuration")
        self.driver, self.stated = driver, {key: stated[key] for key in ("min_gpu_utilization", "time_window")}
        self.is_in_profile = stated["in"] == "profile"
        self.check = next((module._check_gpu_utilization for module in modules if hasattr(module, "_check_gpu_utilization")), None)
        if self.check is None:
            raise Fault("seam_missing", "this release has no _check_gpu_utilization")
        self.watched, self.numbers = {}, itertools.count(1)
        stands = driver.stand_ins
        stands.state("samples", "points that agents report (job_metrics_points)", "usage samples of the run, as they come")
        stands.state("agents", f"{self.check.__module__}: when running jobs are looked at", f"at each sample, and every {EVERY.seconds} s")

    def of(self, profile, task):
        """Writes the policy where it is stated."""
        (profile if self.is_in_profile else task)["utilization_policy"] = dict(self.stated)

    async def take(self, run, name):
        """A run that has its place: its job is up from now on."""
        async with get_session_ctx() as session:
            for job in await self._jobs(session, name):
                job.status = JobStatus.RUNNING
            await session.commit()
        self.watched[run] = name

    async def add(self, usage, begin):
        for sample in usage:
            name = self.watched.get(sample["run"])
            if name is None:
                continue
            percents = [] if None in sample["utilization"] else [permille // 10 for permille in sample["utilization"]]
            async with get_session_ctx() as session:
                jobs = await self._jobs(session, name)
                if len(jobs) != 1:
                    raise Fault("unmapped", f"the samples of a run of {len(jobs)} nodes are not told apart")
                at = begin + timedelta(microseconds=sample["at"] // 1000)
                session.add(models.JobMetricsPoint(
                    job_id=jobs[0].id, timestamp_micro=int(at.timestamp() * 1_000_000), cpu_usage_micro=0, memory_usage_bytes=0,
                    memory_working_set_bytes=0, gpus_memory_usage_bytes=json.dumps([0] * len(percents)), gpus_util_percent=json.dumps(percents)))
                await session.commit()
            self.driver.stand_ins.hit("samples")

    async def fired(self):
        """The runs that dstack ends now, each with its message."""
        ended = {}
        for run, name in self.watched.items():
            async with get_session_ctx() as session:
                for row in await self._jobs(session, name):
                    message = await self._checked(session, row)
                    if message:
                        ended[run] = message
        return ended

    async def _checked(self, session, row):
        job = types.SimpleNamespace(job_spec=JobSpec.parse_raw(row.job_spec_data))
        if "context" in inspect.signature(self.check).parameters:
            result = types.SimpleNamespace(job_update_map={})
            await self.check(types.SimpleNamespace(job=job, job_model=row), result)
            changed = result.job_update_map
            return changed.get("termination_reason_message") if changed.get("status") == JobStatus.TERMINATING else None
        await self.check(session, row, job)
        return row.termination_reason_message if row.status == JobStatus.TERMINATING else None

    @staticmethod
    async def _jobs(session, name):
        found = select(models.JobModel).where(models.JobModel.run_name == name).order_by(models.JobModel.id)
        return (await session.execute(found)).unique().scalars().all()

"""Asks the dstack that this Python has installed when its check of GPU utilization ends a job.

    PYTHON_OF_THE_VERSION ask.py < cases.jsonl > answers.jsonl

The check itself is the package's, called every few seconds of a clock of the case. What it would read in the database is
answered from the case: the points that are there by then and not older than it asks for, newest first.
"""

import asyncio
import contextlib
import json
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

sys.path.append(str(Path(__file__).resolve().parents[1]))
from world import BEGIN, HAS_PIPELINES, OUT, VERSION, models  # noqa: E402

from dstack._internal.core.models.profiles import UtilizationPolicy  # noqa: E402
from dstack._internal.core.models.runs import JobStatus  # noqa: E402

if HAS_PIPELINES:
    import dstack._internal.server.background.pipeline_tasks.jobs_running as checks
else:
    from dstack._internal.server.background.tasks import process_running_jobs as checks


class Clock:
    now = BEGIN


def clock():
    return Clock.now


if HAS_PIPELINES:
    checks.get_current_datetime = clock
else:
    checks.common_utils.get_current_datetime = clock


def micro(at):
    return (at - BEGIN) // timedelta(microseconds=1)


class Session:
    """The points of one job."""

    def __init__(self, case):
        began = int(BEGIN.timestamp()) * 1_000_000
        self.points = [self.point(began + at * 1000, percents, *memory) for at, percents, *memory in case["samples_ms"]]

    @staticmethod
    def point(at, percents, memory=None):
        return models.JobMetricsPoint(
            timestamp_micro=at, cpu_usage_micro=0, memory_usage_bytes=0, memory_working_set_bytes=0,
            gpus_memory_usage_bytes=json.dumps([0] * (len(percents) if memory is None else memory)),
            gpus_util_percent=json.dumps(percents),
        )

    async def execute(self, statement):
        asked = [value for name, value in statement.compile().params.items() if name.startswith("timestamp_micro")]
        assert len(asked) == 1, f"another question than for points since a time: {statement}"
        now = int(BEGIN.timestamp()) * 1_000_000 + micro(Clock.now)
        seen = [point for point in self.points if asked[0] <= point.timestamp_micro <= now]
        return Mock(scalars=lambda: Mock(all=lambda: seen[::-1]))


async def ends(session, job, policy):
    """Whether a look now ends the job."""
    about = Mock(job_spec=Mock(utilization_policy=policy))
    if not HAS_PIPELINES:
        await checks._check_gpu_utilization(session, job, about)
        return job.status == JobStatus.TERMINATING
    result = checks._ProcessResult()
    await checks._check_gpu_utilization(SimpleNamespace(job=about, job_model=job), result)
    return result.job_update_map.get("status") == JobStatus.TERMINATING


async def answer(case):
    session = Session(case)

    @contextlib.asynccontextmanager
    async def context():
        yield session

    checks.get_session_ctx = context
    job = models.JobModel(run_name="run", job_name="run-0-0", status=JobStatus.RUNNING)
    job.id = Mock(hex="0" * 32)
    policy = UtilizationPolicy(min_gpu_utilization=case["min_gpu_utilization"], time_window=case["time_window_s"])
    for at in range(case["eval_every_s"], case["horizon_s"] + 1, case["eval_every_s"]):
        Clock.now = BEGIN + timedelta(seconds=at)
        if await ends(session, job, policy):
            return {"fire_s": at}
    return {"fire_s": None}


async def main():
    for line in sys.stdin:
        case = json.loads(line)
        found = await answer(case)
        print(json.dumps({"id": case["id"], "version": VERSION, "answer": found}), file=OUT, flush=True)


asyncio.run(main())

"""Draws sequences of submissions and ends, steps the dstack 0.22 that this Python has installed through them, and records
what it decides. One JSON object to a line, in the format of tests/data/dstack/sequences.jsonl.gz.

    PYTHON_OF_THE_VERSION step.py --seed 1 --cases 100 > records.jsonl

Which runs finish is drawn among those that run, so drawing and stepping are one. Each case is a world of its own
(`../world.py`); besides, the agent and the runner on a host do at once what they are told and report a run's end when the
case says so. A round: its events, the clock, then one step each over submitted jobs, running jobs, terminating jobs, runs
and fleets.
"""

import argparse
import asyncio
import json
import random
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

sys.path.append(str(Path(__file__).resolve().parents[1]))
import world  # noqa: E402
from world import OUT, host_of, models, pass_time  # noqa: E402

import dstack._internal.server.background.pipeline_tasks.jobs_running as jobs_running  # noqa: E402
import dstack._internal.server.background.pipeline_tasks.jobs_terminating as jobs_terminating  # noqa: E402
from dstack._internal.core.models.runs import JobStatus  # noqa: E402
from dstack._internal.server.schemas.runner import JobStateEvent, PortMapping, PullResponse, TaskStatus  # noqa: E402
from dstack._internal.server.services import logs as log_services  # noqa: E402

LOOPS = ["JobSubmittedPipeline", "JobRunningPipeline", "JobTerminatingPipeline", "RunPipeline", "FleetPipeline"]
# Jobs that report their end when they are polled.
FINISHED = set()
POLLED = threading.local()

log_services.write_logs = lambda *a, **k: None


def stand_in_for_hosts():
    """An agent that has every container running, and a runner that reports what the case says."""
    agent = Mock()
    agent.is_api_v2_supported.return_value = True
    ports = [PortMapping(container=10999, host=10999)]
    agent.get_task.return_value = Mock(status=TaskStatus.RUNNING, ports=ports, image_pull_progress=None)
    runner = Mock()
    runner.run_job.return_value = None
    runner.is_code_upload_optional.return_value = True

    def pull(_):
        ended = [JobStateEvent(timestamp=1, state=JobStatus.DONE, exit_status=0)] if POLLED.job in FINISHED else []
        return PullResponse(job_states=ended, job_logs=[], runner_logs=[], last_updated=1)

    runner.pull.side_effect = pull
    jobs_running.client.ShimClient.from_address = Mock(return_value=agent)
    jobs_running.client.RunnerClient.from_address = Mock(return_value=runner)

    class AnyPort(dict):
        def __missing__(self, _):
            return None

    # These would open a tunnel to the host first.
    def without_tunnel(inner):
        def call(keys, provisioning, runtime, /, *args, **kwargs):
            jobs = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, models.JobModel)]
            POLLED.job = jobs[0].id if jobs else None
            return inner(AnyPort(), *args, **kwargs)

        return call

    names = ["process_provisioning_with_shim", "sync_shim_pulling_state", "submit_job_to_runner", "process_running",
             "is_runner_available"]
    for name in names:
        tunnelled = getattr(jobs_running, f"_{name}")
        setattr(jobs_running, f"_{name}", without_tunnel(tunnelled.__wrapped__))

    async def well(*_, **__):
        return True

    jobs_terminating.stop_runner = well
    jobs_terminating._stop_container = well
    jobs_terminating._drain_job_logs = well


stand_in_for_hosts()


class Server(world.Server):
    async def start_with(self, fleet):
        FINISHED.clear()
        await self.start()
        host = {
            "cpus": fleet["cpus"], "memory_mib": fleet["memory_gib"] << 10, "disk_mib": 500 << 10,
            "blocks": fleet["blocks"], "gpus": fleet["gpus"], "gpu_name": "A100", "gpu_memory_mib": 81920,
        }
        hosts = [{"name": f"h{number}", **host} for number in range(fleet["hosts"])]
        await self.add_fleet(fleet["name"], fleet["placement"], hosts)

    async def submit_event(self, event):
        profile = {"creation_policy": "reuse"}
        if event["retry_no_capacity"]:
            profile["retry"] = {"on_events": ["no-capacity"], "duration": "2h"}
        configuration = {key: event[key] for key in ("nodes", "resources", "priority")}
        await self.submit(self.run_spec(event["name"], configuration, profile))

    async def finish(self, name):
        jobs = [job for job in await self.rows(models.JobModel) if job.run_name == name]
        latest = max(job.submission_num for job in jobs)
        FINISHED.update(job.id for job in jobs if job.submission_num == latest)

    async def hosts(self):
        found = {}
        for row in await self.rows(models.InstanceModel):
            found[row.id] = (host_of(row), row)
        return found

    async def running(self):
        """Runs of which every node of the latest submission runs."""
        latest = {}
        for job in await self.rows(models.JobModel):
            number, found = latest.get(job.run_name, (-1, []))
            if job.submission_num > number:
                number, found = job.submission_num, []
            latest[job.run_name] = (number, [*found, job.status.value])
        return [name for name, (_, found) in latest.items() if set(found) == {"running"}]


def blocks_of(job):
    return json.loads(job.job_runtime_data)["offer"]["blocks"]


def draw_fleet(rng):
    gpus = rng.choice([0, 0, 2, 4, 8])
    cpus = max(4, gpus * 2)
    parts = gpus or cpus
    return {
        "name": "fleet-0", "placement": rng.choice(["any", "cluster", "cluster"]),
        "blocks": rng.choice(["auto", parts, max(2, parts // 2)]),
        "hosts": rng.randint(1, 4), "cpus": cpus, "memory_gib": 4 * cpus, "gpus": gpus,
    }


def draw_submission(rng, fleet, total, number, round_):
    several = fleet["placement"] == "cluster" and rng.random() < 0.3
    need = total if several else rng.choice([need for need in (1, 2, 4, 8) if need <= total])
    small = {"cpu": "1..", "memory": "1GB..", "disk": "1GB.."}
    if several:
        resources = {**small, "gpu": "1.." if fleet["gpus"] else 0}
    elif fleet["gpus"]:
        count = need * fleet["gpus"] // total
        resources = {**small, "gpu": f"{count}..{count}"}
    else:
        resources = {**small, "cpu": f"{need * fleet['cpus'] // total}..", "gpu": 0}
    return {
        "round": round_, "op": "submit", "name": f"run-{number:02}", "nodes": rng.randint(2, 3) if several else 1,
        "need_blocks": need, "priority": rng.choice([0, 0, 0, 10, 50, 100]),
        "retry_no_capacity": rng.random() < 0.75, "resources": resources,
    }


class Journal:
    """What a server decides about jobs, and how its runs stand, round by round."""

    def __init__(self, server, hosts):
        self.server, self.hosts = server, hosts
        self.decisions, self.changes = [], []
        self.decided, self.statuses = set(), {}

    async def step(self, round_):
        async def note(item):
            job = next(job for job in await self.server.rows(models.JobModel) if job.id == item.id)
            if job.id in self.decided:
                return
            about = [round_, job.job_name, job.submission_num]
            if job.used_instance_id or job.instance_id:
                self.decided.add(job.id)
                place = self.hosts[job.instance_id or job.used_instance_id]
                self.decisions.append([*about, "assigned", place, blocks_of(job)])
            elif job.termination_reason:
                self.decided.add(job.id)
                self.decisions.append([*about, job.termination_reason.value, None, None])

        for loop in LOOPS:
            await self.server.step(loop, note if loop == "JobSubmittedPipeline" else None)
        for run in await self.server.rows(models.RunModel):
            if self.statuses.get(run.run_name) != run.status.value:
                self.statuses[run.run_name] = run.status.value
                self.changes.append([round_, run.run_name, run.status.value])

    async def answer(self):
        """All of it, and how instances, jobs with a place and runs stand now."""
        placed = []
        for job in await self.server.rows(models.JobModel):
            if job.status.value in ("provisioning", "pulling", "running"):
                place = self.hosts[job.instance_id]
                placed.append([job.job_name, job.submission_num, job.status.value, place, blocks_of(job)])
        last = {
            "instances": [
                [host, row.status.value, row.busy_blocks, row.total_blocks]
                for host, row in (await self.server.hosts()).values()
            ],
            "placed": placed,
            "runs": [
                [run.run_name, run.status.value, run.termination_reason.value if run.termination_reason else None]
                for run in await self.server.rows(models.RunModel)
            ],
        }
        return {"decisions": self.decisions, "run_status_changes": self.changes, "final": last}


async def play(rng, name):
    fleet = draw_fleet(rng)
    parts = min(fleet["cpus"], fleet["gpus"]) if fleet["gpus"] else fleet["cpus"]
    total = parts if fleet["blocks"] == "auto" else fleet["blocks"]
    busy_rounds = rng.randint(20, 40)
    lengths = [6] * busy_rounds + [30] * 14
    load, ends = rng.uniform(0.3, 1.0), rng.uniform(0.1, 0.5)
    server = Server()
    await server.start_with(fleet)
    journal = Journal(server, {key: host for key, (host, _) in (await server.hosts()).items()})
    events, finished, submitted = [], set(), 0
    for round_, length in enumerate(lengths):
        if round_ < busy_rounds:
            for _ in range(rng.choice([0, 1, 1, 2, 3]) if rng.random() < load else 0):
                event = draw_submission(rng, fleet, total, submitted, round_)
                submitted += 1
                events.append(event)
                await server.submit_event(event)
            for run in await server.running():
                if run not in finished and rng.random() < ends:
                    finished.add(run)
                    events.append({"round": round_, "op": "finish", "name": run})
                    await server.finish(run)
        pass_time(length)
        await journal.step(round_)
    answer = await journal.answer()
    await server.stop()
    return {"id": name, "fleet": fleet, "round_dt_s": lengths, "events": events, "answer": answer}


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100)
    args = parser.parse_args()
    for number in range(args.cases):
        # Each case has draws of its own: one more moves no other's.
        record = await play(random.Random(f"{args.seed}/{number}"), f"d{number:04}")
        print(json.dumps(record), file=OUT, flush=True)


if __name__ == "__main__":
    asyncio.run(main())

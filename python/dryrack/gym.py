"""An environment of gymnasium: an agent decides which waiting job starts next.

    import gymnasium
    import dryrack.gym

    env = gymnasium.make("dryrack/Queue-v0", scenario="cluster.yaml")
    observation, info = env.reset(seed=1)
    action = env.action_space.sample(mask=info["action_mask"])
    observation, reward, terminated, truncated, info = env.step(action)

An episode is a run of the scenario. The agent is asked whenever a job that waits could start. Action 0 starts nothing
until something changes. Action `k` starts the job at place `k` of the queue on the first nodes that have room for it.
With `choose="node"`, there is an action for each job and node: `1 + (k - 1) * nodes + n` starts the job at place `k`
on node `n`, and if it needs more nodes, on those after it. An action that is not possible counts as 0;
`info["action_mask"]` says which are possible.

The reward is the time that all waiting jobs waited since the last step, in hours and negative. So the sum over an
episode is the total waiting time. When the run is over, `info["run"]` is a `dryrack.Run` with all its metrics.
"""
from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from . import outside
from ._program import DryrackError, PathLike
from ._run import Rehearsal, Run, Scenario, arguments, written

Observation = dict[str, NDArray[np.float32]]

# The columns of an observation's `queue`, for each of the first jobs that wait.
QUEUE = ("is_job", "waited_hours", "tasks", "gpus_per_task", "cores_per_task", "estimate_hours")
# The columns of an observation's `nodes`. A node that takes no work has no room.
NODES = ("takes_work", "free_gpus", "gpus", "free_cores", "cores", "free_ram_gib")

_HOUR = 3600e9


class Queue(gymnasium.Env[Observation, np.int64]):
    """Which job starts next. The module's text says what actions, observations and rewards are.

    - `scenario`: the path of a file, or a dict. Its jobs are tasks with whole GPUs, or without
    - `queue`: how many of the waiting jobs the agent sees
    - `choose`: `job`, or `node` for a choice of the node too
    - `seed`: the same seed for each episode; otherwise it is drawn for each, or given to `reset`
    - `profile`, `set`: as for `dryrack.run`; the profile has all rules but the choice of jobs and places"""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, scenario: Scenario, *, queue: int = 16, choose: str = "job", seed: Optional[int] = None,
                 profile: Optional[str] = None, set: Optional[Mapping[str, Any]] = None,
                 folder: Optional[PathLike] = None) -> None:
        if queue < 1:
            raise ValueError(f"queue is {queue}; expected at least 1")
        if choose not in ("job", "node"):
            raise ValueError(f"choose is {choose!r}; expected 'job' or 'node'")
        self._scenario, self._queue, self._choose, self._seed = scenario, queue, choose, seed
        self._profile, self._set, self._folder = profile, dict(set or {}), folder
        self._rehearsal: Optional[Rehearsal] = None
        self._out: Optional[str] = None
        # The first question shows how many nodes there are.
        self._start(seed or 1)
        self._ask()
        self._names = list(self._world.nodes)
        self._end()
        if not self._names:
            raise DryrackError("the scenario has no nodes, or nothing in it ever waits")
        places = queue * (len(self._names) if choose == "node" else 1)
        self._actions = places + 1
        self.action_space = gymnasium.spaces.Discrete(self._actions)

        def box(*shape: int) -> gymnasium.spaces.Box:
            return gymnasium.spaces.Box(-1, 1e9, shape, np.float32)

        # The stubs of gymnasium do not know which arrays its `Dict` holds.
        self.observation_space = cast("gymnasium.Space[Observation]", gymnasium.spaces.Dict({
            "queue": box(queue, len(QUEUE)), "nodes": box(len(self._names), len(NODES)),
            "waiting": box(1), "hours": box(1),
        }))

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None
              ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._end()
        drawn = int(self.np_random.integers(1, 2**31))
        self._start(drawn if self._seed is None else self._seed)
        self._reward()
        self._advance()
        return self._observed(), self._info()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._rehearsal is None or self._done is not None:
            raise DryrackError("the episode is over; call reset() first")
        if self._mask()[int(action)] and int(action) > 0:
            job, start = divmod(int(action) - 1, len(self._names)) if self._choose == "node" else (int(action) - 1, 0)
            run = self._waits.pop(job)
            places = self._room.take(self._world.job(run), start)
            assert places is not None
            self._decisions.append(outside.place(run, places))
            if not self._mask()[1:].any():
                self._advance()
        else:
            self._advance()
        return self._observed(), self._reward(), self._done is not None, False, self._info()

    def close(self) -> None:
        self._end()

    def _start(self, seed: int) -> None:
        self._out = tempfile.mkdtemp(prefix="dryrack-")
        self._written = written(self._scenario, self._folder)
        settings = {**self._set, "outside.deadline": "1d"}
        line = arguments(self._written.__enter__(), self._out, (self._profile, seed, None), settings)
        try:
            self._rehearsal = Rehearsal(line, "agent")
        except BaseException:
            self._end()
            raise
        self._world = self._rehearsal.conversation.world
        self._decisions: list[outside.Object] = []
        self._waits: list[outside.Object] = []
        self._is_asked, self._since, self._waited = False, 0, 0.0
        self._done: Optional[Run] = None

    def _end(self) -> None:
        if self._rehearsal is not None:
            self._rehearsal.close()
            self._rehearsal = None
        if self._out is not None:
            self._written.__exit__(None, None, None)
            # The files of a run that is over belong to its `Run`.
            if getattr(self, "_done", None) is None:
                shutil.rmtree(self._out, ignore_errors=True)
            self._out = None

    def _ask(self) -> bool:
        """Waits for the next question. Whether there is one."""
        assert self._rehearsal is not None
        if self._rehearsal.conversation.ask() is None:
            return False
        self._is_asked = True
        self._world = self._rehearsal.conversation.world
        self._decisions, self._waits = [], self._world.waiting()
        self._room = _Room(self._world)
        return True

    def _advance(self) -> None:
        """Answers, and goes on to the next question at which a job could start."""
        assert self._rehearsal is not None and self._out is not None
        while True:
            left = len(self._waits)
            if self._is_asked:
                self._rehearsal.conversation.decide(self._decisions)
                self._since = self._world.now
            is_over = not self._ask()
            if is_over:
                printed = self._rehearsal.finish()
                report = json.loads(printed)
                self._done = Run(Path(self._out), report, True)
                self._waits = []
            now = self._done.seconds * 1e9 if self._done else self._world.now
            self._waited += left * (now - self._since) / _HOUR
            if is_over or self._mask()[1:].any():
                return

    def _reward(self) -> float:
        """The hours waited since the last call, negative."""
        waited, self._waited = self._waited, 0.0
        return -waited

    def _mask(self) -> NDArray[np.int8]:
        mask = np.zeros(self._actions, np.int8)
        mask[0] = 1
        if self._done is not None:
            return mask
        for at, run in enumerate(self._waits[:self._queue]):
            if not self._room.fits(self._world.job(run)):
                continue
            if self._choose == "job":
                mask[1 + at] = 1
            else:
                first = 1 + at * len(self._names)
                mask[first:first + len(self._names)] = [
                    self._room.tasks_on(name, self._world.job(run)) > 0 for name in self._names]
        return mask

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": self._mask()}
        if self._done is not None:
            info["run"] = self._done
        return info

    def _observed(self) -> Observation:
        queue = np.zeros((self._queue, len(QUEUE)), np.float32)
        for row, run in zip(queue, self._waits):
            job = self._world.job(run)
            task, estimate = job["task"], job["estimate_ns"]
            gpus = task["gpus"]["count"] if task["gpus"] else 0
            row[:] = (1, (self._world.now - run["since"]) / _HOUR, job["tasks"], gpus, task["cpu_milli"] / 1000,
                      -1 if estimate is None else estimate / _HOUR)
        nodes = np.zeros((len(self._names), len(NODES)), np.float32)
        for row, name in zip(nodes, self._names):
            node, free = self._world.nodes[name], self._room.free[name]
            row[:] = (free.takes_work, len(free.gpus), len(node["gpus"]), free.cpu / 1000, node["cpu_milli"] / 1000,
                      free.ram / 2**30)
        single = {"waiting": len(self._waits), "hours": self._world.now / _HOUR}
        return {"queue": queue, "nodes": nodes, **{key: np.array([value], np.float32) for key, value in single.items()}}


class _Free:
    """What is left on a node."""

    def __init__(self, node: outside.Object) -> None:
        self.node = node
        self.takes_work = node["state"] == "ready" and node["instance"] is None
        usable = [gpu for gpu in node["gpus"] if gpu["state"] in ("ready", "degraded") and not gpu["held_by"]]
        self.gpus = [gpu for gpu in usable if not any(gpu["foreign"].values())] if self.takes_work else []
        self.cpu = node["cpu_free_milli"] if self.takes_work else 0
        self.ram = node["ram_free"] if self.takes_work else 0


class _Room:
    """What is left on all nodes, less what this answer gives away."""

    def __init__(self, world: outside.World) -> None:
        self.free = {name: _Free(node) for name, node in world.nodes.items()}

    def _gpus(self, free: _Free, wanted: outside.Object) -> list[int]:
        types, least = wanted["types"], wanted["min_memory"] or 0
        suit = [gpu for gpu in free.gpus if not types or gpu["type"] in types]
        return [gpu["index"] for gpu in suit if gpu["memory"] >= least]

    def tasks_on(self, name: str, job: outside.Object) -> int:
        """How many tasks of the job fit on the node, at most all."""
        free, task = self.free[name], _task(job)
        node, pick = free.node, job["pick"]
        if not free.takes_work or (pick and name not in pick["nodes"]):
            return 0
        if any(node["labels"].get(key) != value for key, value in task["labels"].items()):
            return 0
        if task["os"] not in (None, node["os"]) or task["arch"] not in (None, node["arch"]):
            return 0
        most = [1 if job["gang"] == "spread" else job["tasks"]]
        most += [free.cpu // task["cpu_milli"]] if task["cpu_milli"] else []
        most += [free.ram // task["ram"]] if task["ram"] else []
        if task["gpus"]:
            most.append(len(self._gpus(free, task["gpus"])) // task["gpus"]["count"])
        return int(min(most))

    def fits(self, job: outside.Object) -> bool:
        left = job["tasks"]
        for name in self.free:
            left -= self.tasks_on(name, job)
            if left <= 0:
                return True
        return False

    def take(self, job: outside.Object, start: int = 0) -> Optional[list[outside.Object]]:
        """The parts of a place for all tasks, from this node on; their room is then taken. None if they do not fit."""
        names = list(self.free)
        names = names[start:] + names[:start]
        if job["gang"] == "packed":
            # The largest room first uses the fewest nodes.
            names.sort(key=lambda name: -self.tasks_on(name, job))
        task, left, parts = _task(job), job["tasks"], []
        for name in names:
            tasks = min(left, self.tasks_on(name, job))
            if tasks > 0:
                wanted = task["gpus"]
                gpus = self._gpus(self.free[name], wanted)[:tasks * wanted["count"]] if wanted else []
                parts.append(outside.part(name, tasks=tasks, gpus=gpus))
                left -= tasks
        if left > 0:
            return None
        for part in parts:
            free = self.free[part["node"]]
            free.gpus = [gpu for gpu in free.gpus if gpu["index"] not in part["gpus"]]
            free.cpu -= part["tasks"] * task["cpu_milli"]
            free.ram -= part["tasks"] * task["ram"]
        return parts


def _task(job: outside.Object) -> outside.Object:
    """What each task of a job needs, if this environment can place it."""
    task: Optional[outside.Object] = job["task"]
    if task is None:
        raise DryrackError(f"{job['name']} is a model or has requirements; this environment places tasks")
    if task["gpus"] and task["gpus"]["take"] != "whole":
        raise DryrackError(f"{job['name']} takes a part of a GPU; this environment gives whole GPUs")
    if job["pick"] and "nodes" not in job["pick"]:
        raise DryrackError(f"{job['name']} picks its GPUs by hand; this environment chooses them")
    return task


gymnasium.register(id="dryrack/Queue-v0", entry_point="dryrack.gym:Queue")

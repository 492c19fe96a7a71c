"""The protocol of dryrack for schedulers in another process, version 1. Copy this file; it needs Python 3.9 or later.

    import dryrack_outside as outside

    def decide(world):
        for run in world.waiting():
            ...
            yield outside.place(run, [outside.part("alpha", gpus=[0])])

    outside.serve("my-scheduler", "1.0", decide)

`world` holds what dryrack has said: `now`, and `nodes`, `fleets`, `jobs` and `runs`, each a dict from name to the
object as docs/src/protocol.md describes it. What is printed goes to standard error, since standard output is the
protocol's.
"""
from __future__ import annotations

import errno
import itertools
import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional, TextIO, Union

PROTOCOL = 1

# A message, an object of one, or a decision: what JSON calls an object.
Object = dict[str, Any]


class World:
    """All that is known, kept up to date by snapshots and deltas."""

    def __init__(self, hello: Object) -> None:
        self.hello = hello
        self.driver: Object = hello.get("driver") or {}
        self.now: int = 0
        self.nodes: dict[str, Object] = {}
        self.fleets: dict[str, Object] = {}
        self.jobs: dict[str, Object] = {}
        self.runs: dict[str, Object] = {}
        self.usage: list[Object] = []
        self.refused: list[Object] = []
        self.wake_at: Optional[int] = None
        # The runs to decide on, in the order in which they began to wait, each with its place in that order.
        self._waiting: dict[str, int] = {}

    def hear(self, message: Object) -> None:
        if message["type"] == "snapshot":
            self.nodes, self.fleets, self.jobs, self.runs, self._waiting = {}, {}, {}, {}, {}
        self.now = message["now"]
        for kind in ("nodes", "fleets", "jobs"):
            getattr(self, kind).update((item["name"], item) for item in message[kind])
        for run in message["runs"]:
            self._hear_run(run)
        new = [run for run in message["runs"] if run["waits"] and run["run"] not in self._waiting]
        self._waiting.update((run["run"], run["queued"]) for run in sorted(new, key=lambda run: run["queued"]))
        for name in message.get("jobs_over", []):
            self.jobs.pop(name, None)
        self.usage, self.refused = message.get("usage", []), message.get("refused", [])

    def _hear_run(self, run: Object) -> None:
        name = run["run"]
        self.runs[name] = run
        if run["ended"]:
            del self.runs[name]
        if not run["waits"] or self._waiting.get(name) != run["queued"]:
            self._waiting.pop(name, None)

    def waiting(self, most: Optional[int] = None) -> list[Object]:
        """The runs to decide on, in the order in which they began to wait; with `most`, only so many of them."""
        return [self.runs[name] for name in itertools.islice(self._waiting, most)]

    def job(self, run: Object) -> Object:
        return self.jobs[run["job"]]

    def running(self) -> list[Object]:
        return [run for run in self.runs.values() if run["parts"]]


Decide = Callable[[World], Optional[Iterable[Object]]]
Evaluate = Callable[[World, Object], Object]
Run = Union[Object, str]


def part(node: str, tasks: Optional[int] = None, gpus: Iterable[Any] = (), blocks: Any = None,
         cpu_milli: Optional[int] = None, ram: Optional[int] = None, set: Optional[str] = None) -> Object:
    said = {"node": node, "set": set, "tasks": tasks, "gpus": list(gpus), "blocks": blocks, "cpu_milli": cpu_milli, "ram": ram}
    return {key: value for key, value in said.items() if value is not None}


def _decision(do: str, **fields: Any) -> Object:
    return {"do": do, **{key.rstrip("_"): value for key, value in fields.items() if value is not None}}


def _name(run: Run) -> str:
    return run if isinstance(run, str) else str(run["run"])


def place(run: Run, parts: Sequence[Object]) -> Object:
    return _decision("place", run=_name(run), parts=list(parts))


def wait(run: Run, reasons: Optional[dict[str, int]] = None, text: Optional[str] = None) -> Object:
    return _decision("wait", run=_name(run), reasons=reasons, text=text)


def refuse(run: Run, reasons: Optional[dict[str, int]] = None, text: Optional[str] = None) -> Object:
    return _decision("refuse", run=_name(run), reasons=reasons, text=text)


def preempt(run: Run, for_: Optional[Run] = None, text: Optional[str] = None) -> Object:
    return _decision("preempt", run=_name(run), for_=for_ and _name(for_), text=text)


def cancel(run: Optional[Run] = None, job: Optional[str] = None, because: Optional[str] = None,
           text: Optional[str] = None) -> Object:
    return _decision("cancel", run=run and _name(run), job=job, because=because, text=text)


class Conversation:
    """The questions of one run: `ask` gives the next one, and `answer` answers it.

    `lines` gives the messages of dryrack, and `out` is a text file for the answers."""

    def __init__(self, lines: Iterable[str], out: TextIO, name: str, version: str, wants: Iterable[str] = (),
                 can: Iterable[str] = ()) -> None:
        self.world = World({})
        self.job: Object = {}
        self._lines: Iterator[str] = iter(lines)
        self._out = out
        self._hello = {"name": name, "version": version, "wants": list(wants), "can": list(can)}
        self._question: Object = {}

    def _say(self, **message: Any) -> None:
        self._out.write(json.dumps(message, separators=(",", ":")) + "\n")
        self._out.flush()

    def ask(self) -> Optional[str]:
        """`decide`, `evaluate` (a question about `self.job`), or None when the run is over."""
        for line in self._lines:
            message = json.loads(line)
            kind: str = message["type"]
            if kind == "hello":
                self.world = World(message)
                # An earlier dryrack lists all runs that wait with each question.
                queue = ["queue"] if "queue" in message["can"] else []
                self._say(type="hello", protocol=PROTOCOL, **{**self._hello, "can": [*self._hello["can"], *queue]})
            elif kind in ("snapshot", "delta"):
                self.world.hear(message)
            elif kind == "bye":
                return None
            else:
                self._question, self.world.now = message, message["now"]
                if kind == "decide":
                    self.world.wake_at = None
                else:
                    self.job = message["job"]
                return kind
        return None

    def decide(self, decisions: Optional[Iterable[Object]]) -> None:
        """Answers the question `decide`."""
        # The decisions may be made only now, by a generator that sets `wake_at`.
        made = list(decisions or [])
        wish = {} if self.world.wake_at is None else {"wake_at": self.world.wake_at}
        self._say(type="decisions", id=self._question["id"], decisions=made, **wish)
        self.world.usage, self.world.refused = [], []

    def evaluate(self, evaluated: Object) -> None:
        """Answers the question `evaluate`, such as with `{"fits": False, "text": "no room"}`."""
        self._say(type="evaluated", id=self._question["id"], **evaluated)

    def hold(self, decide: Decide, evaluate: Optional[Evaluate] = None) -> None:
        """Answers all questions with these functions."""
        while (question := self.ask()) is not None:
            if question == "evaluate" and evaluate:
                self.evaluate(evaluate(self.world, self.job))
            else:
                self.decide(decide(self.world))


def serve(name: str, version: str, decide: Decide, evaluate: Optional[Evaluate] = None,
          wants: Iterable[str] = ()) -> None:
    """Answers until dryrack says goodbye. `decide(world)` gives decisions; `world.wake_at` may be set to be asked
    again. `evaluate(world, job)` gives what `evaluated` holds, such as `{"fits": False, "text": "no room"}`."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    can = ["evaluate"] if evaluate else []
    Conversation(sys.stdin, out, name, version, wants, can).hold(decide, evaluate)


def _bind(listener: socket.socket, path: str) -> None:
    """Takes the place of a socket at which nobody listens any more, because its program was killed."""
    try:
        listener.bind(path)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not stat.S_ISSOCK(os.stat(path).st_mode):
            raise
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(path) != errno.ECONNREFUSED:
                raise
        os.unlink(path)
        listener.bind(path)


def listen(path: str, name: str, version: str, decide: Decide, evaluate: Optional[Evaluate] = None,
           wants: Iterable[str] = (), runs: Optional[int] = None) -> None:
    """Like `serve`, for a program that runs already: dryrack connects to this Unix socket (`--outside unix:PATH`). One
    run after the other is answered: `runs` of them, or without end. If a connection breaks, the next run can begin.
    Standard output stays free."""
    can = ["evaluate"] if evaluate else []
    with socket.socket(socket.AF_UNIX) as listener:
        _bind(listener, path)
        try:
            listener.listen()
            print(f"{name} {version} listens at {path}", file=sys.stderr, flush=True)
            while runs is None or runs > 0:
                runs = runs and runs - 1
                connection, _ = listener.accept()
                try:
                    with connection, connection.makefile("r", encoding="utf-8") as lines:
                        with connection.makefile("w", encoding="utf-8") as out:
                            Conversation(lines, out, name, version, wants, can).hold(decide, evaluate)
                except ConnectionError as error:
                    print(f"the connection broke: {error}", file=sys.stderr, flush=True)
        finally:
            os.unlink(path)

"""The protocol of dryrack for schedulers in another process, version 1. Copy this file; it needs Python 3.9 or later.

    import dryrack_outside as outside

    def decide(world):
        for run in world.waiting():
            ...
            yield outside.place(run, [outside.part("alpha", gpus=[0])])

    outside.serve("my-scheduler", "1.0", decide)

`world` holds what dryrack has said: `now`, and `nodes`, `fleets`, `jobs` and `runs`, each a dict from name to the
object as docs/src/protocol.md describes it. What is printed goes to standard error, since standard output is the protocol's.
"""
import json
import os
import socket
import sys

PROTOCOL = 1


class World:
    """All that is known, kept up to date by snapshots and deltas."""

    def __init__(self, hello):
        self.hello, self.driver, self.now = hello, hello.get("driver") or {}, 0
        self.nodes, self.fleets, self.jobs, self.runs = {}, {}, {}, {}
        self.usage, self.refused, self.wake_at, self._waiting = [], [], None, []

    def hear(self, message):
        if message["type"] == "snapshot":
            self.nodes, self.fleets, self.jobs, self.runs = {}, {}, {}, {}
        self.now = message["now"]
        for kind in ("nodes", "fleets", "jobs"):
            getattr(self, kind).update((item["name"], item) for item in message[kind])
        self.runs.update((run["run"], run) for run in message["runs"])
        for name in [name for name, run in self.runs.items() if run["ended"]]:
            del self.runs[name]
        for name in message.get("jobs_over", []):
            self.jobs.pop(name, None)
        self.usage, self.refused = message.get("usage", []), message.get("refused", [])

    def waiting(self):
        """The runs to decide on, in the order in which they began to wait."""
        return [self.runs[name] for name in self._waiting]

    def job(self, run):
        return self.jobs[run["job"]]

    def running(self):
        return [run for run in self.runs.values() if run["parts"]]


def part(node, tasks=None, gpus=(), blocks=None, cpu_milli=None, ram=None):
    said = {"node": node, "tasks": tasks, "gpus": list(gpus), "blocks": blocks, "cpu_milli": cpu_milli, "ram": ram}
    return {key: value for key, value in said.items() if value is not None}


def _decision(do, **fields):
    return {"do": do, **{key.rstrip("_"): value for key, value in fields.items() if value is not None}}


def _name(run):
    return run["run"] if isinstance(run, dict) else run


def place(run, parts):
    return _decision("place", run=_name(run), parts=parts)


def wait(run, reasons=None, text=None):
    return _decision("wait", run=_name(run), reasons=reasons, text=text)


def refuse(run, reasons=None, text=None):
    return _decision("refuse", run=_name(run), reasons=reasons, text=text)


def preempt(run, for_=None, text=None):
    return _decision("preempt", run=_name(run), for_=for_ and _name(for_), text=text)


def cancel(run=None, job=None, because=None, text=None):
    return _decision("cancel", run=run and _name(run), job=job, because=because, text=text)


class Conversation:
    """The questions of one run. `ask` gives the next one, and `answer` answers it.

    `lines` gives the messages of dryrack, and `out` is a text file for the answers."""

    def __init__(self, lines, out, name, version, wants=(), can=()):
        self.world, self.job, self._lines, self._out = None, None, iter(lines), out
        self._hello = {"name": name, "version": version, "wants": list(wants), "can": list(can)}
        self._question = None

    def _say(self, **message):
        self._out.write(json.dumps(message, separators=(",", ":")) + "\n")
        self._out.flush()

    def ask(self):
        """`decide` or `evaluate` (a question about `self.job`), or None when the run is over."""
        for line in self._lines:
            message = json.loads(line)
            kind = message["type"]
            if kind == "hello":
                self.world = World(message)
                self._say(type="hello", protocol=PROTOCOL, **self._hello)
            elif kind in ("snapshot", "delta"):
                self.world.hear(message)
            elif kind == "bye":
                return None
            else:
                self._question, self.world.now = message, message["now"]
                if kind == "decide":
                    self.world._waiting, self.world.wake_at = message["waiting"], None
                else:
                    self.job = message["job"]
                return kind
        return None

    def answer(self, answer):
        """Answers with a list of decisions, or with what `evaluated` holds."""
        if self._question["type"] == "decide":
            decisions = list(answer or [])
            wish = {} if self.world.wake_at is None else {"wake_at": self.world.wake_at}
            self._say(type="decisions", id=self._question["id"], decisions=decisions, **wish)
            self.world.usage, self.world.refused = [], []
        else:
            self._say(type="evaluated", id=self._question["id"], **answer)


def _hold(lines, out, name, version, decide, evaluate, wants):
    conversation = Conversation(lines, out, name, version, wants, ["evaluate"] if evaluate else [])
    while (question := conversation.ask()) is not None:
        world = conversation.world
        conversation.answer(decide(world) if question == "decide" else evaluate(world, conversation.job))


def serve(name, version, decide, evaluate=None, wants=()):
    """Answers until dryrack says goodbye. `decide(world)` gives decisions; `world.wake_at` may be set to be asked again.
    `evaluate(world, job)` gives what `evaluated` holds, such as `{"fits": False, "text": "no room"}`."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    _hold(sys.stdin, out, name, version, decide, evaluate, wants)


def listen(path, name, version, decide, evaluate=None, wants=(), runs=None):
    """Like `serve`, for a program that runs already: dryrack connects to this Unix socket (`--outside unix:PATH`). One run
    after the other is answered: `runs` of them, or without end. Standard output stays free."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        try:
            listener.listen()
            print(f"{name} {version} listens at {path}", file=sys.stderr, flush=True)
            while runs is None or runs > 0:
                runs = runs and runs - 1
                connection, _ = listener.accept()
                with connection, connection.makefile("r", encoding="utf-8") as lines:
                    with connection.makefile("w", encoding="utf-8") as out:
                        _hold(lines, out, name, version, decide, evaluate, wants)
        finally:
            os.unlink(path)

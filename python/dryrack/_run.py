"""One run of a scenario, and its results as data frames."""
from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Optional, TextIO, Union

import pandas as pd

from . import outside
from ._program import DryrackError, PathLike, call, judge, program

Scenario = Union[PathLike, Mapping[str, Any]]


class Run:
    """What a run did. Times are in seconds since it began, as in the files that `dryrack run --out` writes.

    The log is kept until this object is gone, or for good after `save`."""

    def __init__(self, folder: Path, report: Mapping[str, Any], is_ours: bool) -> None:
        self.folder = folder
        self.report = report
        if is_ours:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._jobs: Optional[pd.DataFrame] = None
        self._nodes: Optional[pd.DataFrame] = None
        self._events: Optional[pd.DataFrame] = None

    def __repr__(self) -> str:
        failed = int((~self.expectations["passed"]).sum())
        said = "all expectations hold" if failed == 0 else f"{failed} of {len(self.expectations)} expectations failed"
        if self.expectations.empty:
            said = "no expectations"
        return f"<dryrack.Run {self.scenario!r}, profile {self.profile}, seed {self.seed}, {self.seconds:g} s, {said}>"

    @property
    def scenario(self) -> str:
        """Its title."""
        return str(self.report["scenario"])

    @property
    def profile(self) -> str:
        return str(self.report["profile"])

    @property
    def seed(self) -> int:
        return int(self.report["seed"])

    @property
    def digest(self) -> str:
        """A hash of all records of the log: two runs with the same digest did the same."""
        return str(self.report["digest"])

    @property
    def seconds(self) -> float:
        """How much simulated time passed."""
        return float(self.report["sim_seconds"])

    @property
    def ok(self) -> bool:
        """Whether all expectations hold."""
        return all(expectation["passed"] for expectation in self.report["expectations"])

    @property
    def expectations(self) -> pd.DataFrame:
        """A row for each expectation: `name`, `passed`, and `why`."""
        rows = pd.DataFrame(self.report["expectations"], columns=["name", "passed", "why"])
        return rows.astype({"passed": bool})

    @property
    def metrics(self) -> pd.Series[float]:
        """All metrics by name; NaN where one does not apply. `dryrack help` and the book say what they are."""
        return pd.Series(self.report["metrics"], name="metrics", dtype=float)

    @property
    def jobs(self) -> pd.DataFrame:
        """A row for each attempt of each replica of a job: `job`, `task` (the replica), `submit`, `start`, `end`..."""
        if self._jobs is None:
            self._jobs = pd.read_csv(self.folder / "jobs.csv", dtype=_TEXT_OF_JOBS, keep_default_na=False,
                                     na_values={name: [""] for name in ("start", "end", "recorded_wait", "placed")})
        return self._jobs

    @property
    def nodes(self) -> pd.DataFrame:
        """A row for each node: `node`, `machine`, `state`, `gpus`, `ready_seconds`, `gpu_seconds`..."""
        if self._nodes is None:
            text = {"node": str, "machine": str, "state": str}
            self._nodes = pd.read_csv(self.folder / "nodes.csv", dtype=text, keep_default_na=False)
        return self._nodes

    @property
    def events(self) -> pd.DataFrame:
        """A row for each record of the log: `seconds`, `step`, `kind` (`input` or `event`), `name` such as `placed`,
        the `job`, `replica`, `attempt` and `node` that it is about, and `data`, all that it says."""
        if self._events is None:
            with open(self.log, encoding="utf-8") as lines:
                rows = [_event(json.loads(line)) for line in lines]
            self._events = pd.DataFrame([row for row in rows if row], columns=_EVENT)
            self._events = self._events.astype({"replica": "Int64", "attempt": "Int64"})
        return self._events

    @property
    def log(self) -> Path:
        """The log, which `dryrack explain`, `view`, `diff` and `replay` read."""
        return self.folder / "events.jsonl"

    def explain(self, job: str, at: Optional[str] = None) -> str:
        """Why the job waits, or why it was placed where it is; `at` is an instant such as `10m`."""
        instant = [] if at is None else [f"--at={at}"]
        return call(["explain", self.log, f"--job={job}", *instant])

    def diff(self, other: Run) -> str:
        """How the decisions of another run differ, in words."""
        return call(["diff", self.log, other.log])

    def save(self, folder: PathLike) -> Path:
        """Copies the log and the tables to a folder, which is made."""
        return Path(shutil.copytree(self.folder, folder, dirs_exist_ok=True))


_TEXT_OF_JOBS = {name: str for name in ("job", "nodes", "gpus", "outcome", "reason", "queue")}
_EVENT = ["seconds", "step", "kind", "name", "job", "replica", "attempt", "node", "data"]


def _event(record: dict[str, Any]) -> Optional[list[Any]]:
    """The row of a record; None for the header and the footer."""
    kind = next((kind for kind in ("input", "event") if kind in record), None)
    if kind is None:
        return None
    (name, data), = record[kind].items() if isinstance(record[kind], dict) else [(record[kind], {})]
    said = data if isinstance(data, dict) else {}
    attempt = said.get("run") if isinstance(said.get("run"), dict) else {}
    assert isinstance(attempt, dict)
    job = attempt.get("job", said.get("job"))
    placed = said.get("placement") or [{}]
    node = said.get("node", placed[0].get("node") if isinstance(placed[0], dict) else None)
    seconds, of = record["at_ns"] / 1e9, (attempt.get("replica"), attempt.get("attempt"))
    return [seconds, record["step"], kind, name, job, *of, node, data]


def run(
    scenario: Scenario,
    *,
    profile: Optional[str] = None,
    seed: Optional[int] = None,
    until: Optional[str] = None,
    set: Optional[Mapping[str, Any]] = None,
    scheduler: Union[str, outside.Decide, None] = None,
    evaluate: Optional[outside.Evaluate] = None,
    wants: tuple[str, ...] = (),
    deadline: Optional[str] = None,
    folder: Optional[PathLike] = None,
    out: Optional[PathLike] = None,
) -> Run:
    """Runs a scenario.

    - `scenario`: the path of a file, or a dict with the same keys
    - `profile`, `seed`, `until`: as the flags of `dryrack run`
    - `set`: fields to override, such as `{"nodes.alpha.count": 4}`
    - `scheduler`: decides in place of the profile. It is a function that gets a `dryrack.outside.World` and gives
      decisions, or the command of a program, such as `"python3 first_fit.py"`
    - `evaluate`: answers questions of the scenario ("would this fit?") in place of the profile, with such a function
    - `wants`: `idle` and `usage`, as the page about the protocol says
    - `deadline`: real time for each answer, such as `"1h"` when a debugger is used; 10 seconds if left out
    - `folder`: where paths in a dict begin. The dict is written there for the time of the run
    - `out`: keeps the log and the tables in this folder

    A wrong scenario raises `InvalidInput`. An exception of `scheduler` ends the run and is raised here."""
    place = Path(tempfile.mkdtemp(prefix="dryrack-") if out is None else os.fspath(out))
    try:
        flags, decided = (profile, seed, until), (scheduler, evaluate, wants)
        printed = _printed(scenario, place, flags, dict(set or {}), decided, deadline, folder)
    except BaseException:
        if out is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    return Run(place, json.loads(printed), out is None)


def _printed(
    scenario: Scenario,
    place: Path,
    flags: tuple[Optional[str], Optional[int], Optional[str]],
    settings: dict[str, Any],
    decided: tuple[Union[str, outside.Decide, None], Optional[outside.Evaluate], tuple[str, ...]],
    deadline: Optional[str],
    folder: Optional[PathLike],
) -> str:
    """Runs a scenario, writes its log and tables to `place`, and gives what was printed."""
    scheduler, evaluate, wants = decided
    if deadline is not None:
        settings["outside.deadline"] = deadline
    with written(scenario, folder) as path:
        line = arguments(path, place, flags, settings)
        if not callable(scheduler):
            return call(line if scheduler is None else [*line, f"--outside={scheduler}"])
        name = getattr(scheduler, "__name__", type(scheduler).__name__)
        with Rehearsal(line, name, wants, ["evaluate"] if evaluate else []) as rehearsal:
            rehearsal.conversation.hold(scheduler, evaluate)
            return rehearsal.finish()


def arguments(path: PathLike, place: PathLike, flags: tuple[Optional[str], Optional[int], Optional[str]],
              settings: Mapping[str, Any]) -> list[PathLike]:
    """The command line of a run with this profile, seed and end, and these fields."""
    line: list[PathLike] = ["run", path, "--out", place, "--format=json"]
    line += [f"--{name}={value}" for name, value in zip(("profile", "seed", "until"), flags) if value is not None]
    for key, value in settings.items():
        line.append(f"--set={key}={value if isinstance(value, str) else json.dumps(value)}")
    return line


def check(scenario: Scenario, folder: Optional[PathLike] = None) -> None:
    """Raises `InvalidInput` if the scenario, a path or a dict, is wrong. Nothing is run."""
    with written(scenario, folder) as path:
        call(["check", path])


def profiles() -> list[str]:
    """The names of all profiles that come with dryrack."""
    return [profile["name"] for profile in json.loads(call(["profile", "list", "--format=json"]))]


@contextmanager
def written(scenario: Scenario, folder: Optional[PathLike] = None) -> Iterator[PathLike]:
    """The path of a scenario. A dict is written to a file first, which is removed afterwards."""
    if not isinstance(scenario, Mapping):
        yield scenario
        return
    # JSON is YAML. Lines are what errors point at.
    text = json.dumps(scenario, indent=1)
    with tempfile.TemporaryDirectory(prefix="dryrack-") as own:
        if folder is None:
            path = Path(own) / "scenario.yaml"
            path.write_text(text, encoding="utf-8")
            yield path
            return
        handle, name = tempfile.mkstemp(prefix="scenario-", suffix=".yaml", dir=folder)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
            yield name
        finally:
            os.unlink(name)


class Rehearsal:
    """A run whose decisions are made in this process: the program connects to a socket here, and `conversation` has its
    questions. The program is ended with this object."""

    def __init__(self, line: list[PathLike], name: str, wants: tuple[str, ...] = (), can: Sequence[str] = ()) -> None:
        folder = tempfile.mkdtemp(prefix="dryrack-")
        path = os.path.join(folder, "scheduler.sock")
        self._printed: list[IO[str]] = [
            open(os.path.join(folder, name), "w+", encoding="utf-8") for name in ("out", "err")]
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            words = [program(), *(os.fspath(word) for word in line), f"--outside=unix:{path}"]
            out, errors = self._printed
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
            self._files: list[TextIO] = []
            self.close = weakref.finalize(self, _end, self._process, self._printed, self._files, folder)
            connection = self._accept(listener)
        # These keep the connection open.
        self._files += [connection.makefile("r", encoding="utf-8"), connection.makefile("w", encoding="utf-8")]
        connection.close()
        reader, writer = self._files
        self.conversation = outside.Conversation(reader, writer, name, "in Python", wants, can)

    def _accept(self, listener: socket.socket) -> socket.socket:
        """The connection of the program, which ends without one if the scenario is wrong."""
        listener.settimeout(0.02)
        try:
            while True:
                try:
                    connection, _ = listener.accept()
                    connection.settimeout(None)
                    return connection
                except TimeoutError:
                    if self._process.poll() is not None:
                        break
            self.finish()
            raise DryrackError("the program ended without a question")
        except BaseException:
            self.close()
            raise

    def finish(self) -> str:
        """What the program printed. Waits for its end."""
        _disconnect(self._files)
        status = self._process.wait()
        out, errors = (_text(file) for file in self._printed)
        judge(status, errors)
        return out

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _disconnect(files: list[TextIO]) -> None:
    for file in files:
        # What is still to be written is of no use to a program that has ended.
        with suppress(OSError):
            file.close()


def _end(process: subprocess.Popen[bytes], printed: list[IO[str]], files: list[TextIO], folder: str) -> None:
    """Ends the program if it still runs."""
    _disconnect(files)
    process.kill()
    process.wait()
    for file in printed:
        file.close()
    shutil.rmtree(folder, ignore_errors=True)

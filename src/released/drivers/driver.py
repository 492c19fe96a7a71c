"""What the drivers of released programs share: a guarded process, stand-ins that are checked, and the protocol.

A driver calls the program's own code. Where that code would leave the process (the network, another program) it is
answered by a *stand-in*, with data of the scenario. A stand-in that was not asked although a decision needed it is a
failure with a name: the program then fell back to something that nobody stated, and its answer would be wrong.
"""

import atexit
import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
import traceback

PROTOCOL = 1
FAILED = 70  # EX_SOFTWARE of sysexits.h
HOME, LOCK = "dryrack-driver-", "lock"


class Fault(Exception):
    """A named failure of the driver. The run ends with it."""

    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


# --- the process ---------------------------------------------------------------------------------------------------

attempts = []  # what the program tried to reach; kept because it may swallow the refusal
_closed = False
_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"}
_PROCESSES = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn"}


def _audit(event, args):
    # Called for every audited event of the interpreter, so it must be quick.
    if not _closed:
        return
    if event in _NETWORK:
        attempts.append(("network", f"{event} {args[1:]!r}"[:300]))
        raise PermissionError(f"dryrack: the driver has no network ({event})")
    if event in _PROCESSES:
        attempts.append(("process", f"{event} {args[:2]!r}"[:300]))
        raise PermissionError(f"dryrack: the driver starts no program ({event})")


def make_home(folder):
    """An empty home, and the lock that shows that its process lives. Removes homes whose processes were killed."""
    for entry in os.scandir(folder):
        if not entry.name.startswith(HOME) or not entry.is_dir(follow_symlinks=False):
            continue
        try:
            # A process that just starts has no lock yet.
            if time.time() - entry.stat().st_mtime < 60:
                continue
            with open(os.path.join(entry.path, LOCK), "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
        except OSError:
            pass  # it lives, or belongs to somebody else
    home = tempfile.mkdtemp(prefix=HOME, dir=folder)
    lock = open(os.path.join(home, LOCK), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return home, lock


def prepare():
    """Takes standard output for the protocol, gives the program an empty home, and shuts the door."""
    global out, home, lock, _closed
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)  # what the program prints goes to standard error
    owner = os.getpid()
    home, lock = make_home(tempfile.gettempdir())
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(home, ignore_errors=True))
    os.environ.update(HOME=home, XDG_CACHE_HOME=home, XDG_CONFIG_HOME=home, XDG_DATA_HOME=home, HF_HOME=home, TMPDIR=home)
    tempfile.tempdir = home
    sys.addaudithook(_audit)
    _closed = True


def started():
    """Called once the program is there. What it tried while it was imported was refused, and decided nothing."""
    for name, text in attempts:
        sys.stderr.write(f"note: refused at start: {name}: {text}\n")
    attempts.clear()


def check_attempts():
    if attempts:
        (name, text), more = attempts[0], len(attempts) - 1
        attempts.clear()
        raise Fault(name, f"the program tried to leave the process: {text}" + (f" (and {more} more times)" if more else ""))


def guarded(work):
    try:
        return work()
    except Fault as fault:
        end(fault)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        traceback.print_exc()
        end(Fault("driver_failed", f"{type(error).__name__}: {error}"))


def end(fault):
    sys.stderr.write(f"fault: {fault.name}: {fault.text}\n")
    sys.stderr.flush()
    sys.stdout.flush()
    shutil.rmtree(home, ignore_errors=True)
    os._exit(FAILED)  # threads of the program may be waiting


# --- stand-ins -----------------------------------------------------------------------------------------------------


class StandIns:
    """The stand-ins of a driver: what each replaces, where its data comes from, and how often it was asked."""

    def __init__(self):
        self.stated, self.asked = [], {}

    def state(self, name, replaces, data):
        """Declares a stand-in."""
        self.stated.append({"name": name, "for": replaces, "from": data})
        self.asked[name] = 0

    def hit(self, name, value=None):
        self.asked[name] += 1
        return value

    def replace(self, name, original, stand_in, data):
        """Replaces a function wherever a module of the program has it under any name."""
        self.state(name, f"{original.__module__}.{original.__qualname__}", data)
        package, places = original.__module__.split(".")[0], 0
        for module_name, module in list(sys.modules.items()):
            if module is None or module_name.split(".")[0] != package:
                continue
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, stand_in)
                    places += 1
        if not places:
            raise Fault("seam_missing", f"{original.__module__}.{original.__qualname__} is nowhere to be replaced")

    def begin(self):
        """Starts counting for one decision."""
        self.before = dict(self.asked)

    def was_asked(self, name):
        return self.asked[name] > self.before[name]

    def must_have_been(self, name, because):
        if not self.was_asked(name):
            raise Fault("stand_in_unused", f"`{name}` was not asked, although {because}; the program fell back to something else")


# --- the protocol --------------------------------------------------------------------------------------------------


class World:
    """All that dryrack has said: nodes, fleets, jobs and runs by name, in the order in which they were first told."""

    def __init__(self):
        self.now, self.nodes, self.fleets, self.jobs, self.runs = 0, {}, {}, {}, {}
        self.refused, self.usage = [], []

    def snapshot(self, message):
        self.__init__()
        self.apply(message)

    def apply(self, message):
        self.now = message["now"]
        for table, key in (("nodes", "name"), ("fleets", "name"), ("jobs", "name"), ("runs", "run")):
            kept = getattr(self, table)
            for item in message.get(table, []):
                kept[item[key]] = item
        self.refused, self.usage = message.get("refused", []), message.get("usage", [])
        for name in message.get("jobs_over", []):
            self.jobs.pop(name, None)

    def forget_ended(self):
        for name in [name for name, run in self.runs.items() if run["ended"]]:
            del self.runs[name]


def say(message):
    out.write(json.dumps(message, separators=(",", ":"), ensure_ascii=False) + "\n")
    out.flush()


def serve(driver):
    """Speaks the protocol until `bye` or the end of the input."""
    world, greeted = World(), False
    for line in sys.stdin:
        message = json.loads(line)
        kind = message["type"]
        try:
            if kind == "hello":
                if greeted:
                    driver.begin_again()  # another world in the same process
                greeted = True
                say(_hello(driver, message))
            elif kind == "snapshot":
                world.snapshot(message)
                driver.changed(world)
            elif kind == "delta":
                world.apply(message)
                driver.changed(world)
                world.forget_ended()
            elif kind == "decide":
                world.now = message["now"]
                answer = driver.decide(world, message["waiting"])
                check_attempts()
                say({"type": "decisions", "id": message["id"], **answer})
            elif kind == "evaluate":
                world.now = message["now"]
                answer = driver.evaluate(world, message["job"])
                check_attempts()
                say({"type": "evaluated", "id": message["id"], **answer})
            elif kind == "bye":
                break
        except Fault as fault:
            if kind in ("hello", "decide", "evaluate") and "fault" in driver.understood:
                say({"type": "fault", "id": message.get("id"), "name": fault.name, "text": fault.text[:4096]})
            end(fault)
    shutil.rmtree(home, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _hello(driver, message):
    driver.understood = set(message["can"])
    driver.options(message["driver"] or {})
    answer = {"type": "hello", "protocol": PROTOCOL, "name": driver.name, "version": driver.version,
              "wants": driver.wants, "can": driver.can}
    if "stands_in" in driver.understood:
        answer["stands_in"] = driver.stand_ins.stated
    return answer

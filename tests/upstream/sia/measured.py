"""What Sia's artifact measured of each application, and how long its jobs take according to that."""

import bisect
import collections
import csv
import functools
import math

# The artifact's name of each type of GPU, that of dryrack, the number of nodes, and the GPUs of each.
KINDS = [("aws", "t4", 6, 4), ("dgx-ext", "a100-40g", 2, 8), ("rtx", "rtx-2080-ti", 3, 8)]
PER_NODE = {name: gpus for name, _, _, gpus in KINDS}
Application = collections.namedtuple("Application", "epochs start slowdown")
# How many epochs a job takes, the seconds that each start takes, and how much longer real runs took than profiled ones
# (applications.py and simulator_config.py of the artifact).
APPLICATIONS = {
    "bert": Application(2, 120, 1.2), "cifar10": Application(100, 50, 1.8), "deepspeech2": Application(80, 25, 1.2),
    "imagenet": Application(90, 250, 1.2), "yolov3": Application(50, 80, 1.2)}


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def between(low, high, at, values):
    """The value at `at` on the line through those at `low` and `high`."""
    part = 0 if low == high else (at - low) / (high - low)
    return (1 - part) * values[0] + part * values[1]


def around(keys, at):
    """The last of the sorted keys that is at most `at`, and the first that is at least `at`."""
    return keys[bisect.bisect_right(keys, at) - 1], keys[bisect.bisect_left(keys, at)]


def packed(kind, width):
    """The GPUs on each node if a job has full nodes."""
    more = width % PER_NODE[kind]
    return (PER_NODE[kind],) * (width // PER_NODE[kind]) + ((more,) if more else ())


class Measured:
    def __init__(self, folder, name):
        self.about = APPLICATIONS[name]
        self.epochs = {int(path.stem.split("-")[1]): [{key: float(row[key]) for key in ("progress", "grad_sqr", "grad_var")}
                                                      for row in read(path)[:self.about.epochs]]
                       for path in (folder / name).glob("validation-*.csv")}
        self.batches = sorted(self.epochs)
        done = [min(rows[epoch]["progress"] for rows in self.epochs.values()) for epoch in range(self.about.epochs)]
        self.work = [after - before for before, after in zip([0] + done, done)]
        self.steps = {}
        for kind in PER_NODE:
            for row in read(folder / name / f"placements-{kind}.csv"):
                times = (float(row["step_time"]), float(row["sync_time"]))
                self.steps.setdefault((kind, row["placement"]), {})[int(row["local_bsz"])] = times

    def step(self, kind, placement, batch):
        """The seconds of a step, and the batch size, which the memory of the GPUs may limit. The artifact measured a
        placement in one order of its nodes. One that it did not measure counts as packed."""
        width = sum(placement)
        orders = [min(nodes[at:] + nodes[:at] for at in range(len(nodes))) for nodes in (placement, packed(kind, width))]
        keys = [(kind, "".join(map(str, nodes))) for nodes in orders]
        measured = next(self.steps[key] for key in keys if key in self.steps)
        local = math.ceil(batch / width)
        passes = math.ceil(local / max(measured))
        local = min(math.ceil(local / passes), self.batches[-1] // (width * passes))
        low, high = around(sorted(measured), local)
        whole, exchange = (between(low, high, local, values) for values in zip(measured[low], measured[high]))
        return (whole + (whole - exchange) * (passes - 1)) * self.about.slowdown, local * passes * width

    @functools.cache
    def seconds(self, kind, placement, batch):
        """The duration of each epoch. A step does more or less work, depending on the batch size and the epoch."""
        seconds, batch = self.step(kind, placement, batch)
        low, high = around(self.batches, batch)
        epochs = []
        for epoch, work in enumerate(self.work):
            square, variance = (between(low, high, batch, [self.epochs[size][epoch][key] for size in (low, high)])
                                for key in ("grad_sqr", "grad_var"))
            gain = (variance + square) / (variance * self.batches[0] / batch + square)
            epochs.append(work * seconds / gain)
        return epochs

"""Holds a driver against decisions recorded from released programs, and prints what differs.

Each line of a file is `{"request": ..., "answer": ...}` or one case; the driver knows the form of its records. One
JSON object is printed for each file: how many decisions were identical, and each that differs.
"""

import gzip
import json
import os
import time

import dryrack_driver as shared


def lines(path):
    opened = gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as text:
        for line in text:
            if line.strip():
                yield json.loads(line)


def compare(driver, paths):
    for path in paths:
        cases = same = 0
        differ, times = [], []
        for case in lines(path):
            begun = time.perf_counter()
            found = driver.compare(case)
            took = time.perf_counter() - begun
            shared.check_attempts()
            if found is None:
                continue  # the record holds no answer of this release
            times.append(found.pop("took", took))
            cases += 1
            if not found["differs"]:
                same += 1
            else:
                differ.append(found)
        times.sort()
        shared.say({"file": os.path.basename(path), "release": f"{driver.name}=={driver.version}", "cases": cases, "same": same,
                    "median_ms": round(1000 * times[len(times) // 2], 2) if times else None,
                    "longest_ms": round(1000 * times[-1], 2) if times else None, "differ": differ})

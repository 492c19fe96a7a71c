"""write.py VERSION FILE: one line for each sequence."""
import asyncio
import gzip
import json
import sys

import plant  # must come first: it sets the clock
import cases
import clock
import gpustack
from driver import Driver

VERSION, FILE = sys.argv[1:]
assert gpustack.__version__.lstrip("v") == VERSION, gpustack.__version__


async def record(number, case):
    clock.now_ms = 0
    engine = await plant.open_store(number)
    for worker in case["workers"]:
        await plant.add_worker(engine, worker)
    driver = Driver(engine, case)
    await driver.run()
    await engine.dispose()
    return driver.steps


async def main():
    with open(FILE, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as out:
        for number, case in enumerate(cases.all_cases()):
            steps = await record(number, case)
            head = {key: case[key] for key in ("name", "workers", "models", "until")}
            line = {"kind": "sequence", "version": VERSION, **head, "steps": steps}
            out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            print(f"{VERSION} {case['name']}: {len(steps)} steps", file=sys.stderr)


asyncio.run(main())

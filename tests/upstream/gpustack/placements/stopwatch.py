#!/usr/bin/env python3
"""Times one decision of an installed GPUStack: 10, 100 and 1,000 workers of 8 GPUs with 4 instances each, all in memory.

    python stopwatch.py      (in an environment with gpustack==VERSION, as `compare.py` makes them)

The world of `cargo bench --bench deployment` with equal nodes. Reading the database is left out, so the program is slower
than this where it runs. A row is the median of so many decisions.
"""

import asyncio
import contextlib
import statistics
import time
from unittest.mock import patch

import ask

GIB = 1 << 30
ROUNDS = {10: 20, 100: 10, 1000: 5}


def request(count):
    gpu = lambda index: {"index": index, "name": "A100", "vendor": "nvidia", "type": "cuda", "vram": 80 * GIB}
    workers = [{"id": at, "name": f"w{at}", "labels": {"os": "linux"}, "unified_memory": False, "state": "ready",
                "ram": 1024 * GIB, "reserved": {"ram": 2 * GIB, "vram": GIB}, "gpus": [gpu(index) for index in range(8)]}
               for at in range(1, count + 1)]
    held = lambda worker, index: {
        "id": worker["id"] * 8 + index, "name": f"x-{worker['id']}-{index}", "model_id": 99, "model_name": "x",
        "backend": "vllm", "state": "running", "ram": 0, "worker_id": worker["id"], "gpu_type": "cuda",
        "gpu_indexes": [index], "vram": {str(index): 72 * GIB}, "subordinates": []}
    model = {"id": 1, "name": "m", "backend": "vllm", "categories": ["llm"], "weight_bytes": 16 * GIB, "heads": 64,
             "arch": "Qwen3ForCausalLM", "vocab_size": None, "placement": "spread", "distributed": True, "replicas": 1,
             "worker_selector": {"os": "linux"}, "gpu_ids": None, "gpus_per_replica": None, "backend_parameters": [], "env": {}}
    return {"id": str(count), "op": "place", "model": model, "runner_gpu_types": None, "workers": workers,
            "instances": [held(worker, index) for worker in workers for index in range(4)]}


async def once(config, asked):
    world = ask.World(asked)
    by_worker = {}
    for made in world.instances:
        by_worker.setdefault(made.worker_id, []).append(made)
    # Looked up, as a database with an index would: a walk over all instances for each worker is not the program's.
    async def on_worker(_engine, worker): return by_worker.get(worker.id, [])
    with contextlib.ExitStack() as replaced:
        for target, by in world.replacements():
            replaced.enter_context(patch(target, on_worker if target.endswith("get_worker_model_instances") else by))
        began = time.perf_counter()
        said = await ask.place(config, world)
        took = time.perf_counter() - began
    assert said["candidate"], "every model fits"
    return took


async def main():
    config = ask.make_config()
    for count, rounds in ROUNDS.items():
        asked = request(count)
        times = [await once(config, asked) for _ in range(rounds + 1)][1:]
        print(f"{ask.VERSION} {count:>5} workers {statistics.median(times) * 1e3:9.1f} ms", file=ask.RECORDS, flush=True)


asyncio.run(main())

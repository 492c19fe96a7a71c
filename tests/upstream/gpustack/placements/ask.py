#!/usr/bin/env python3
"""Asks an installed GPUStack where it would place each request, and writes request and answer, one record to a line.

    PYTHONHASHSEED=0 python ask.py < requests.jsonl > gpustack-VERSION.jsonl      (in an environment with gpustack==VERSION)

For releases 0.6.0 to 0.7.1 and 2.3.0. The package runs unchanged; its readers of database, model hub, runner catalog and
file cache are replaced by what the request says, and a request whose replacements were not read is an error.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import types
from unittest.mock import AsyncMock, MagicMock, patch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
# What the package prints must not stand between the records.
RECORDS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

import logging  # noqa: E402

from gpustack import __version__  # noqa: E402
from gpustack.config.config import Config, set_global_config  # noqa: E402
from gpustack.scheduler import scheduler  # noqa: E402
from gpustack.schemas import models as schema  # noqa: E402
from gpustack.schemas import workers as worker_schema  # noqa: E402

logging.disable(logging.CRITICAL)
VERSION = __version__.removeprefix("v")
IS_NEW = int(VERSION.split(".")[0]) >= 2
SELECTOR = "gpustack.policies.candidate_selectors."
Gpu = getattr(worker_schema, "GPUDeviceStatus", None) or worker_schema.GPUDeviceInfo
if not IS_NEW and hasattr(worker_schema, "GPUDeviceInfo"):
    Gpu = worker_schema.GPUDeviceInfo
SUBORDINATES = "ray_actors" if "ray_actors" in schema.DistributedServers.model_fields else "subordinate_workers"
Subordinate = schema.RayActor if SUBORDINATES == "ray_actors" else schema.ModelInstanceSubordinateWorker
VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "apple": "Apple"}


def make_config():
    if not IS_NEW:
        Config.check_ray = lambda self: None  # it looks for an installed vLLM
    config = Config(data_dir=tempfile.mkdtemp(prefix="placements-"), token="t", jwt_secret_key="t",
                    **({} if IS_NEW else {"enable_ray": True}))
    if not IS_NEW:
        config.enable_ray = True
    set_global_config(config)
    return config


def make_worker(stated):
    memory = lambda total: worker_schema.MemoryInfo(total=total, is_unified_memory=stated["unified_memory"])
    vendor = (lambda name: name) if IS_NEW else VENDORS.get
    gpus = [Gpu(index=gpu["index"], name=gpu["name"], vendor=vendor(gpu["vendor"]), type=gpu["type"], memory=memory(gpu["vram"]))
            for gpu in stated["gpus"]]
    extra = {"worker_uuid": str(stated["id"]), "cluster_id": 1, "ifname": "eth0", "advertise_address": ""} if IS_NEW else {}
    return worker_schema.Worker(
        id=stated["id"], name=stated["name"], hostname=stated["name"], ip="10.0.0.1", port=10150, labels=dict(stated["labels"]),
        state=worker_schema.WorkerStateEnum(stated["state"]),
        system_reserved=worker_schema.SystemReserved(ram=stated["reserved"]["ram"], vram=stated["reserved"]["vram"]),
        status=worker_schema.WorkerStatus(memory=memory(stated["ram"]), gpu_devices=gpus), **extra)


def make_claim(part, ram):
    return schema.ComputedResourceClaim(vram={int(index): bytes for index, bytes in part["vram"].items()}, ram=ram)


def make_instance(stated):
    servers = None
    if stated["subordinates"]:
        typed = (lambda part: {"gpu_type": part["gpu_type"]}) if IS_NEW else (lambda part: {"worker_ip": "10.0.0.1"})
        servers = schema.DistributedServers(**{SUBORDINATES: [
            Subordinate(worker_id=part["worker_id"], total_gpus=len(part["gpu_indexes"]), gpu_indexes=list(part["gpu_indexes"]),
                        computed_resource_claim=make_claim(part, 0), **typed(part)) for part in stated["subordinates"]]})
    extra = {"cluster_id": 1, "gpu_type": stated["gpu_type"]} if IS_NEW else {}
    made = schema.ModelInstance(
        id=stated["id"], name=stated["name"], model_id=stated["model_id"], model_name=stated["model_name"],
        worker_id=stated["worker_id"], state=schema.ModelInstanceStateEnum(stated["state"]),
        gpu_indexes=list(stated["gpu_indexes"]), computed_resource_claim=make_claim(stated, stated["ram"]),
        distributed_servers=servers, **extra)
    if IS_NEW:
        made.__dict__["model"] = types.SimpleNamespace(backend=schema.BackendEnum.VLLM.value)
    return made


def model_fields(stated):
    backend = schema.BackendEnum.VLLM
    picks = stated["gpu_ids"] and schema.GPUSelector(
        gpu_ids=list(stated["gpu_ids"]), **({"gpus_per_replica": stated["gpus_per_replica"]} if IS_NEW else {}))
    return dict(
        name=stated["name"], replicas=stated["replicas"], source=schema.SourceEnum.HUGGING_FACE, huggingface_repo_id="made/up",
        backend=backend.value if IS_NEW else backend, placement_strategy=schema.PlacementStrategyEnum(stated["placement"]),
        distributed_inference_across_workers=stated["distributed"], cpu_offloading=False,
        categories=[schema.CategoryEnum(category) for category in stated["categories"]],
        worker_selector=None if stated["worker_selector"] is None else dict(stated["worker_selector"]),
        gpu_selector=picks or None, backend_parameters=list(stated["backend_parameters"]), env=dict(stated["env"]),
        **({"cluster_id": 1, "roles": None} if IS_NEW else {"distributable": False}))


def no_session():
    session = MagicMock()
    session.exec = AsyncMock(return_value=MagicMock(all=lambda: [], first=lambda: None))
    entered = MagicMock()
    entered.__aenter__, entered.__aexit__ = AsyncMock(return_value=session), AsyncMock(return_value=False)
    return entered


class World:
    """What the package reads instead of its database and the hub."""

    def __init__(self, request):
        self.request, self.read = request, set()
        self.workers = [make_worker(stated) for stated in request["workers"]]
        self.instances = [make_instance(stated) for stated in request["instances"]]
        model = request["model"]
        self.published = types.SimpleNamespace(
            architectures=[model["arch"]], num_attention_heads=model["heads"], vocab_size=model["vocab_size"],
            **({"num_key_value_heads": 8, "hidden_size": 5120, "num_hidden_layers": 64, "max_position_embeddings": 40960} if IS_NEW else {}))

    def reads(self, what, value):
        self.read.add(what)
        return value

    def replacements(self):
        async def all_workers(*_, **__):
            return [make_worker(stated) for stated in self.request["workers"]]
        weights = lambda *_, **__: self.reads("weights", self.request["model"]["weight_bytes"])
        if IS_NEW:
            kinds = self.request["runner_gpu_types"]
            async def published(*_, **__): return self.reads("config", self.published)
            async def has_runner(_filter, _backends, _overrides, kind, *_): return kinds is None or kind in kinds
            policies = "gpustack.policies."
            yield policies + "worker_filters.backend_framework_filter.BackendFrameworkFilter._has_supported_runners", has_runner
            yield policies + "worker_filters.backend_framework_filter.async_session", no_session
            yield policies + "scorers.placement_scorer.async_session", no_session
            yield policies + "scorers.model_file_locality_scorer.async_session", no_session
            yield policies + "scorers.model_file_locality_scorer.ready_worker_ids", AsyncMock(return_value=set())
            yield "gpustack.scheduler.scheduler.get_draft_model_source", AsyncMock(return_value=None)
            yield SELECTOR + "base_candidate_selector.get_pretrained_config_with_workers", published
            yield policies + "utils.get_model_weight_size", weights
            yield "gpustack.schemas.workers.Worker.all", all_workers
            return
        async def on_worker(_engine, worker): return [made for made in self.instances if made.worker_id == worker.id]
        async def all_instances(_engine): return self.instances
        async def by_field(_session, field, value): return [made for made in self.instances if getattr(made, field) == value]
        published = lambda *_, **__: self.reads("config", self.published)
        service = type("WorkerService", (), {
            "__init__": lambda _self, _session: None,
            "get_by_name": AsyncMock(side_effect=lambda name: next((made for made in self.workers if made.name == name), None))})
        from gpustack.routes import models  # noqa: F401  (loaded so that it can be patched)
        from gpustack.scheduler import evaluator
        yield "gpustack.policies.utils.get_worker_model_instances", on_worker
        yield SELECTOR + "vllm_resource_fit_selector.get_worker_model_instances", on_worker
        yield SELECTOR + "vllm_resource_fit_selector.get_model_weight_size", weights
        yield SELECTOR + "vllm_resource_fit_selector.get_pretrained_config", published
        yield "gpustack.policies.scorers.placement_scorer.get_model_instances", all_instances
        yield "gpustack.scheduler.scheduler.get_pretrained_config", published
        yield "gpustack.scheduler.evaluator.auth_check", lambda **_: None
        yield "gpustack.routes.models.WorkerService", service
        yield "gpustack.schemas.models.ModelInstance.all_by_field", by_field
        yield "gpustack.schemas.workers.Worker.all", all_workers
        if hasattr(evaluator, "is_repo_cached"):
            yield "gpustack.scheduler.evaluator.is_repo_cached", lambda *_, **__: True


def written_part(part, indexes, claim, name):
    return {"worker": name, "worker_id": part, "gpu_indexes": list(indexes or []),
            "vram": {str(index): bytes for index, bytes in ((claim.vram if claim else None) or {}).items()}}


def written(candidate, request):
    if candidate is None:
        return None
    names = {stated["id"]: stated["name"] for stated in request["workers"]}
    claim = candidate.computed_resource_claim
    subordinates = [written_part(part.worker_id, part.gpu_indexes, part.computed_resource_claim, names[part.worker_id])
                    for part in getattr(candidate, SUBORDINATES, None) or []]
    made = written_part(candidate.worker.id, candidate.gpu_indexes, claim, candidate.worker.name)
    made.update(ram=claim.ram, score=candidate.score, overcommit=bool(candidate.overcommit), subordinates=subordinates)
    if IS_NEW:
        made["gpu_type"] = candidate.gpu_type
    return made


async def place(config, world):
    model = schema.Model(id=world.request["model"]["id"], ready_replicas=0, **model_fields(world.request["model"]))
    if IS_NEW:
        from gpustack.policies.resource_view import ResourceView
        found, _ = await scheduler.find_candidate(None, config, model, world.workers, world.instances,
                                                  resource_view=ResourceView(world.instances))
    else:
        found, _ = await scheduler.find_candidate(config, model, world.workers)
    return {"candidate": written(found, world.request)}


async def evaluate(config, world):
    from gpustack.scheduler import evaluator
    from gpustack.schemas.model_evaluations import ModelSpec
    evaluator.evaluate_cache.clear()
    if hasattr(evaluator, "evaluate_model_limiter"):
        evaluator.evaluate_model_limiter = contextlib.nullcontext()
    said = await evaluator.evaluate_model(config, None, ModelSpec(**model_fields(world.request["model"])), world.workers)
    claim = said.resource_claim
    return {"evaluation": {"compatible": said.compatible, "ram": claim.ram if claim else None, "vram": claim.vram if claim else None}}


async def answer(config, request):
    world = World(request)
    with contextlib.ExitStack() as replaced:
        for target, by in world.replacements():
            replaced.enter_context(patch(target, by))
        try:
            said = await (place if request["op"] == "place" else evaluate)(config, world)
        except Exception as fault:
            return {"id": request["id"], "error": f"{type(fault).__name__}: {fault}"}
    found = said.get("candidate") or (said.get("evaluation") or {}).get("compatible")
    if found:
        # Else the package would have fallen back, silently, on a model of no weight or of unknown heads.
        assert "config" in world.read, request["id"]
        assert "weights" in world.read or request["model"]["env"], request["id"]
    return {"id": request["id"], **said}


async def main():
    config = make_config()
    for line in sys.stdin:
        request = json.loads(line)
        record = {"version": VERSION, "request": request, "answer": await answer(config, request)}
        RECORDS.write(json.dumps(record, separators=(",", ":")) + "\n")
    RECORDS.flush()


if __name__ == "__main__":
    asyncio.run(main())

"""The store, and what is outside: workers, models, what a model hub would say of them."""
import logging
import os
import tempfile
import types

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import clock

clock.install()

from gpustack.config.config import Config, set_global_config
from gpustack.logging import setup_logging
from gpustack.schemas import models as M
from gpustack.schemas import workers as W
from gpustack.scheduler import scheduler as S
from gpustack.server import controllers, db, services, worker_syncer
from gpustack.worker import serve_manager
from gpustack.policies.candidate_selectors import vllm_resource_fit_selector as vllm
from sqlmodel import SQLModel
from sqlmodel.ext.asyncio.session import AsyncSession

GIB = 1 << 30
FOLDER = tempfile.mkdtemp(prefix="sequences")

Config.check_ray = lambda self: None  # otherwise an installed vllm is looked for
config = Config(token="t", jwt_secret_key="t", data_dir=FOLDER)
set_global_config(config)
setup_logging(False)
logging.disable(logging.CRITICAL)
clock.patch(S, W, serve_manager)

# What a hub would say, by repository.
weights, heads = {}, {}


def pretrained_config(model, **_):
    return types.SimpleNamespace(
        architectures=["Qwen3ForCausalLM"], num_attention_heads=heads[model.huggingface_repo_id]
    )


vllm.get_pretrained_config = pretrained_config
S.get_pretrained_config = pretrained_config
for module in (vllm, __import__("gpustack.utils.hub", fromlist=["hub"]), __import__("gpustack.policies.utils", fromlist=["utils"])):
    if hasattr(module, "get_model_weight_size"):
        module.get_model_weight_size = lambda model, *_, **__: weights[model.huggingface_repo_id]


async def open_store(number):
    db._engine = None
    await db.init_db(f"sqlite:///{FOLDER}/{number}.db")
    engine = db.get_engine()
    async with engine.begin() as connection:
        await connection.run_sync(SQLModel.metadata.create_all)
    await services.cache.clear()
    return engine


async def add_worker(engine, spec):
    """`spec`: name, gpus (bytes of each), ram, reserved_ram, reserved_vram."""
    extra = {"worker_uuid": spec["name"]} if "worker_uuid" in W.Worker.model_fields else {}
    gpus = [
        W.GPUDeviceInfo(index=index, name="NVIDIA", vendor="NVIDIA", type="cuda", memory=W.MemoryInfo(total=total))
        for index, total in enumerate(spec["gpus"])
    ]
    async with AsyncSession(engine) as session:
        session.add(
            W.Worker(
                name=spec["name"], hostname=spec["name"], ip="10.0.0.1", port=10150, state="ready",
                labels={"os": "linux", "worker-name": spec["name"]}, heartbeat_time=clock.now(),
                system_reserved=W.SystemReserved(ram=spec["reserved_ram"], vram=spec["reserved_vram"]),
                status=W.WorkerStatus(memory=W.MemoryInfo(total=spec["ram"]), gpu_devices=gpus), **extra,
            )
        )
        await session.commit()


def model(spec):
    """`spec`: name, replicas, categories, weights, heads, strategy, selector."""
    repository = "org/" + spec["name"]
    weights[repository], heads[repository] = spec["weights"], spec["heads"]
    return M.Model(
        name=spec["name"], replicas=spec["replicas"], ready_replicas=0, source="huggingface",
        huggingface_repo_id=repository, backend="vllm", backend_parameters=[], categories=spec["categories"],
        placement_strategy=spec["strategy"], worker_selector=spec["selector"], restart_on_error=True,
        distributed_inference_across_workers=False,
    )

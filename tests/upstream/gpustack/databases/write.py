"""write.py VERSION FILE: a store as that release of GPUStack keeps it, or of 2.x a folder of the pages that it answers."""
import asyncio
import datetime
import json
import os
import sqlite3
import sys
import tempfile

from gpustack.config import config as configured
from gpustack.config.config import Config

VERSION, FILE = sys.argv[1:]
GIB = 1 << 30
START = datetime.datetime(2026, 11, 2, 8, 0, 0, tzinfo=datetime.timezone.utc)

Config.check_ray = lambda self: None  # otherwise an installed vllm is looked for

from sqlalchemy.orm.attributes import set_attribute

from gpustack.schemas import models as M
from gpustack.schemas import workers as W
from gpustack.schemas.common import Pagination


def at(minutes):
    return START + datetime.timedelta(minutes=minutes)


def gpu(index, name, vendor, kind, total, used, cores, busy, unified=False):
    memory = W.MemoryInfo(total=total, used=used, utilization_rate=100 * used / total, is_unified_memory=unified)
    device = getattr(W, "GPUDeviceStatus", W.GPUDeviceInfo)
    return device(
        index=index, name=name, vendor=vendor, type=kind, uuid=f"GPU-{index}-of-{total}",
        core=W.GPUCoreInfo(total=cores, utilization_rate=busy), memory=memory,
    )


def worker(number, name, state, labels, cpus, ram, ram_used, gpus, message=None):
    unified = any(device.memory.is_unified_memory for device in gpus)
    more = {"worker_uuid": f"uuid-of-{name}", "port": 10150, "heartbeat_time": at(600)}
    if VERSION.startswith("2."):
        more |= {"cluster_id": 1, "provider": "Docker", "ifname": "eth0"}
    return dict(
        id=number, name=name, hostname=f"{name}.example.org", ip=f"192.0.2.{number}", labels=labels | {"worker-name": name},
        system_reserved=W.SystemReserved(ram=2 * GIB, vram=GIB), state=state, state_message=message,
        status=W.WorkerStatus(
            cpu=W.CPUInfo(total=cpus, utilization_rate=6.25),
            memory=W.MemoryInfo(total=ram, used=ram_used, utilization_rate=100 * ram_used / ram, is_unified_memory=unified),
            gpu_devices=gpus,
        ),
        created_at=at(-1440), updated_at=at(600),
    ) | {key: value for key, value in more.items() if key in W.Worker.model_fields}


S = W.WorkerStateEnum
# Memory and names of the devices as GPUStack's own fixtures of such machines have them (tests/fixtures/workers).
A100, MAC, RTX = 85899345920, 200789721088, 17171480576
WORKERS = [
    worker(1, "rack-a", S.READY, {"os": "linux", "arch": "amd64", "zone": "west"}, 64, 512 * GIB, 40 * GIB, [
        gpu(index, "NVIDIA A100-SXM4-80GB", "NVIDIA", "cuda", A100, (70 if index < 3 else 1) * GIB, 6912, [91.0, 88.5, 12.0, 0.0][index])
        for index in range(4)
    ]),
    worker(2, "desk", S.READY, {"os": "linux", "arch": "amd64", "zone": "east"}, 16, 67183366144, 3967795200, [
        gpu(index, "NVIDIA GeForce RTX 4080", "NVIDIA", "cuda", RTX, [429326336, 619380736][index], 10240, 0.0)
        for index in range(2)
    ]),
    worker(3, "studio", S.READY, {"os": "darwin", "arch": "arm64"}, 24, 206158430208, 92699000832, [
        gpu(0, "Apple M2 Ultra", "Apple", "mps", MAC, 2512488436, 60, 0.0, unified=True)
    ]),
    worker(4, "gone-dark", S.NOT_READY, {"os": "linux", "arch": "amd64"}, 32, 256 * GIB, 8 * GIB, [
        gpu(0, "NVIDIA A100-SXM4-80GB", "NVIDIA", "cuda", A100, GIB, 6912, 0.0)
    ], "Heartbeat lost"),
]

GGUF = "llama-box" if not VERSION.startswith("2.") else None


def model(number, name, minutes, replicas, **fields):
    more = {"categories": fields.pop("categories", ["llm"]), "env": {"HF_TOKEN": "hf_secret_of_somebody"}}
    if VERSION.startswith("2."):
        more["cluster_id"] = 1
    known = M.Model.model_fields
    return dict(id=number, name=name, replicas=replicas, created_at=at(minutes), updated_at=at(600)) | {
        key: value for key, value in (fields | more).items() if key in known
    }


HAS_GPU_IDS = "gpu_ids" in M.GPUSelector.model_fields


def picked(*indices):
    """Of `rack-a`. Before 0.5 a user picked one GPU."""
    if HAS_GPU_IDS:
        return M.GPUSelector(gpu_ids=[f"rack-a:cuda:{index}" for index in indices])
    return M.GPUSelector(worker_name="rack-a", gpu_index=indices[0], gpu_name="NVIDIA A100-SXM4-80GB")


HUB = {"source": "huggingface"}
SPREAD, PACK = M.PlacementStrategyEnum.SPREAD, M.PlacementStrategyEnum.BINPACK
MODELS = [
    model(1, "chat", 0, 3, **HUB, huggingface_repo_id="Qwen/Qwen2.5-7B-Instruct", placement_strategy=SPREAD, backend="vllm",
          backend_parameters=["--max-model-len=8192", "--gpu-memory-utilization=0.4", "--api-key=sk-of-somebody"]),
    model(2, "picked-by-hand", 20, 1, **HUB, huggingface_repo_id="Qwen/Qwen2.5-32B-Instruct", backend="vllm",
          gpu_selector=picked(0, 1), backend_parameters=["--tensor-parallel-size=2"] if HAS_GPU_IDS else []),
    model(3, "search", 45, 1, **HUB, huggingface_repo_id="BAAI/bge-m3", categories=["embedding"], placement_strategy=PACK,
          worker_selector={"zone": "east"}, backend="vllm", restart_on_error=False),
    model(4, "mine", 60, 1, source="local_path", local_path="/srv/of-somebody/tuned-13b", backend="vllm"),
    model(5, "too-large", 90, 1, **HUB, huggingface_repo_id="Qwen/Qwen2.5-72B-Instruct", backend="vllm",
          # 0.4 does not spread vLLM over workers.
          distributed_inference_across_workers=not VERSION.startswith("0.4")),
    model(6, "stopped", 95, 0, **HUB, huggingface_repo_id="Qwen/Qwen2.5-7B-Instruct", backend="vllm"),
]
if GGUF:
    MODELS += [
        model(7, "on-the-mac", 100, 1, source="ollama_library", ollama_library_model_name="qwen2.5:14b", backend=GGUF,
              cpu_offloading=True),
        model(8, "nobody-knows", 110, 1, source="ollama_library", ollama_library_model_name="deepseek-r1:671b", backend=GGUF),
        model(9, "over-two", 120, 1, source="huggingface", huggingface_repo_id="of-somebody/large-GGUF",
              huggingface_filename="large-*.gguf", backend=GGUF, distributed_inference_across_workers=True),
    ]


def instance(number, of, suffix, minutes, state, on=None, gpus=(), claim=None, message=None, **more):
    asked = next(entry for entry in MODELS if entry["id"] == of)
    sources = {key: asked[key] for key in asked if key.startswith(("source", "huggingface", "ollama", "model_scope", "local_path"))}
    host = next((entry for entry in WORKERS if entry["name"] == on), None)
    fields = dict(
        id=number, name=f"{asked['name']}-{suffix}", model_id=of, model_name=asked["name"], state=state, state_message=message,
        gpu_indexes=list(gpus), computed_resource_claim=claim, created_at=at(minutes), updated_at=at(600), cluster_id=1,
        **sources, **more,
    )
    if host:
        fields |= {"worker_id": host["id"], "worker_name": on, "worker_ip": host["ip"]}
    return {key: value for key, value in fields.items() if key in M.ModelInstance.model_fields or key.endswith("_at")}


def takes(ram, vram, **layers):
    return M.ComputedResourceClaim(ram=ram, vram=vram, **layers)


def beside():
    """The second half of `over-two`, as the release says who else works for an instance."""
    claim = takes(GIB, {0: 60 * GIB})
    if "rpc_servers" in M.DistributedServers.model_fields:
        part = M.ModelInstanceRPCServer(worker_id=4, gpu_index=0, computed_resource_claim=claim)
        return M.DistributedServers(rpc_servers=[part])
    part = M.ModelInstanceSubordinateWorker(worker_id=4, worker_name="gone-dark", worker_ip="192.0.2.4", total_gpus=1,
                                            gpu_indexes=[0], computed_resource_claim=claim)
    return M.DistributedServers(subordinate_workers=[part])


I = M.ModelInstanceStateEnum
INSTANCES = [
    instance(1, 1, "aaaaa", 0, I.RUNNING, "rack-a", [2], takes(0, {2: int(A100 * 0.4)})),
    instance(2, 1, "bbbbb", 0, I.RUNNING, "rack-a", [3], takes(0, {3: int(A100 * 0.4)})),
    instance(3, 1, "ccccc", 240, getattr(I, "STARTING", I.INITIALIZING), "gone-dark", [0], takes(0, {0: int(A100 * 0.4)})),
    instance(4, 2, "ddddd", 20, I.RUNNING, "rack-a", [0, 1] if HAS_GPU_IDS else [0],
             takes(0, {index: int(A100 * 0.9) for index in ([0, 1] if HAS_GPU_IDS else [0])})),
    instance(5, 3, "eeeee", 45, I.ERROR, "desk", [0], takes(0, {0: int(RTX * 0.9)}), "exited with code 1", restart_count=3),
    instance(6, 4, "fffff", 60, I.DOWNLOADING, "desk", [1], takes(0, {1: int(RTX * 0.9)}), download_progress=40.0),
    instance(7, 5, "ggggg", 90, I.PENDING, message="No fit worker found."),
]
if GGUF:
    INSTANCES += [
        instance(8, 7, "hhhhh", 100, I.RUNNING, "studio", [0],
                 takes(1_400_000_000, {0: 12_900_000_000}, is_unified_memory=True, offload_layers=49, total_layers=49)),
        instance(9, 8, "iiiii", 110, I.PENDING, message="No fit worker found."),
        instance(10, 9, "jjjjj", 120, I.SCHEDULED, "rack-a", [3],
                 takes(3 * GIB, {3: 40 * GIB}, offload_layers=80, total_layers=80), distributed_servers=beside()),
    ]

# Of the sum of the weight files, by source.
FILES = [("Qwen/Qwen2.5-7B-Instruct", None, 15_242_694_550), ("Qwen/Qwen2.5-32B-Instruct", None, 65_539_014_144),
         (None, "/srv/of-somebody/tuned-13b", 26_031_764_480)]


def files():
    from gpustack.schemas.model_files import ModelFile, ModelFileStateEnum

    for number, (repository, path, size) in enumerate(FILES, 1):
        where = {"source": "huggingface", "huggingface_repo_id": repository} if repository else {"source": "local_path", "local_path": path}
        yield ModelFile(id=number, **where, size=size, worker_id=1, resolved_paths=["/var/lib/gpustack/cache/x"],
                        state=ModelFileStateEnum.READY, source_index=str(number))


def loads():
    from gpustack.schemas.system_load import SystemLoad

    for minute in range(0, 600, 60):
        yield SystemLoad(timestamp=int(at(minute).timestamp()), cpu=6.0, ram=12.5, gpu=[0.0, 37.5, 42.0][minute // 60 % 3], vram=51.25)


def row(kind, fields, asked=None):
    """As the API makes it: what a user did not say is set by the schema of the request."""
    dates = {key: fields[key] for key in ("created_at", "updated_at")}
    rest = {key: value for key, value in fields.items() if key not in dates}
    if asked:
        rest = asked(**rest).model_dump() | {"id": fields["id"]} | {
            # A dump has no classes any more, and this column wants one.
            key: value for key, value in rest.items() if key == "gpu_selector"
        }
    made = kind(**rest)
    for key, date in dates.items():
        set_attribute(made, key, date)
    return made


async def store():
    from gpustack.server import db
    from gpustack.server.server import Server
    from sqlmodel.ext.asyncio.session import AsyncSession

    url = f"sqlite:///{FILE}"
    server = Server.__new__(Server)
    server._config = Config(token="t", jwt_secret_key="t", data_dir=tempfile.mkdtemp(), database_url=url)
    if hasattr(configured, "set_global_config"):
        configured.set_global_config(server._config)
    server._run_migrations()
    await db.init_db(url)
    engine = db.get_engine()
    async with AsyncSession(engine) as session:
        session.add_all([row(W.Worker, fields) for fields in WORKERS])
        session.add_all([row(M.Model, fields, M.ModelCreate) for fields in MODELS])
        await session.commit()
        session.add_all([row(M.ModelInstance, fields) for fields in INSTANCES])
        session.add_all(list(loads()))
        try:
            session.add_all(list(files()))
        except ImportError:  # before 0.6 nothing is said of files
            pass
        await session.commit()
    await engine.dispose()


def pages():
    os.makedirs(FILE, exist_ok=True)
    for name, page, public, rows in (
        ("workers", W.WorkersPublic, W.WorkerPublic, WORKERS),
        ("models", M.ModelsPublic, M.ModelPublic, MODELS),
        ("model-instances", M.ModelInstancesPublic, M.ModelInstancePublic, INSTANCES),
    ):
        items = [public(**fields) for fields in rows]
        total = len(items)
        found = page(items=items, pagination=Pagination(page=1, perPage=100, total=total, totalPage=1))
        with open(f"{FILE}/{name}.json", "w") as out:
            json.dump(found.model_dump(mode="json"), out, indent=1)
            out.write("\n")


if VERSION.startswith("2."):
    pages()
else:
    if os.path.exists(FILE):
        os.remove(FILE)
    asyncio.run(store())
    # Nothing of this run's own: no free pages, no log.
    with sqlite3.connect(FILE) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection = sqlite3.connect(FILE, isolation_level=None)
    connection.execute("VACUUM")
    connection.close()

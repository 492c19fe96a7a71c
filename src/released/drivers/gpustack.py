"""Drives the scheduler of a released GPUStack, 0.6.0 to 2.3.0.

GPUStack's own tables are made in a database in memory, and its own `Scheduler._schedule_one` decides for one waiting
model instance at a time: it reads workers, models and instances, runs the filters, selectors and scorers, and writes
the row. What it wrote is the decision. Nothing tests the version: a name that only some releases have is looked for.
"""

import asyncio
import inspect
import json
import logging
import os
import re
import types

import dryrack_driver as shared
from dryrack_driver import Fault

import gpustack
import gpustack.logging
from gpustack.config.config import Config, set_global_config
from gpustack.scheduler import evaluator, scheduler
from gpustack.schemas import models, workers
from gpustack.utils import hub
import gpustack.routes.models as routes
import gpustack.server.controllers as controllers
import gpustack.server.db as db
try:
    import gpustack.policies.scorers.model_file_locality_scorer  # since 2.1.2: where the weights are already
    from gpustack.schemas import model_files
except ImportError:
    model_files = None
try:
    from gpustack.server.cache import cache as row_cache
except ImportError:
    from gpustack.server.services import cache as row_cache
from sqlalchemy import delete
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool
from sqlmodel import SQLModel, select
from sqlmodel.ext.asyncio.session import AsyncSession

gpustack.logging.setup_logging()  # adds the level `trace`, which upstream's modules use
logging.disable(logging.CRITICAL)

VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "apple": "Apple"}
LLM_OVERHEAD, OTHER_OVERHEAD = 2 * 1024**3, 512 * 1024**2
GPU = getattr(workers, "GPUDeviceStatus", None) or workers.GPUDeviceInfo
SUBORDINATES = "ray_actors" if "ray_actors" in models.DistributedServers.model_fields else "subordinate_workers"
SUBORDINATE = models.RayActor if SUBORDINATES == "ray_actors" else models.ModelInstanceSubordinateWorker
CLUSTER, OWNER = 1, 1  # 2.x: one cluster, of one owner


def driver():
    return Driver()


def known(of, **fields):
    """Those of `fields` that this release has."""
    return {name: value for name, value in fields.items() if name in of.model_fields}


class Driver:
    name, wants, can = "gpustack", [], ["evaluate", "again"]

    def __init__(self):
        self.version = gpustack.__version__.lstrip("v")
        self.understood = set()
        self.stand_ins = shared.StandIns()
        self.described = {}  # what the scenario says of each model, by the model's name
        self.runner_types = None
        self.begun = {}  # run: the repository of its model, and the nodes on which it was placed
        self.files = {}  # (node, repository): that replicas of it ran there, so the node has its weights
        self.queue = None  # the program's own, if the scenario says how long a computation takes
        self.told = {}  # run: what the program last said of its waiting, if it has a queue
        self.tables = Tables()
        self._replace()
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._start())

    # --- stand-ins ---

    def _replace(self):
        stands = self.stand_ins
        stands.state("database", "the database server", "GPUStack's own tables in memory, filled from the fleet and the runs")
        stands.replace("weights", hub.get_model_weight_size, self._weights, "model.weights, in bytes")
        stands.replace("config", hub.get_pretrained_config, self._config,
                       "model.architecture, model.heads, model.vision_heads, model.vocabulary")
        if hasattr(hub, "auth_check"):
            stands.replace("access", hub.auth_check, lambda *a, **k: stands.hit("access"), "every repository is public")
        if hasattr(hub, "is_repo_cached"):
            stands.replace("cached", hub.is_repo_cached, lambda *a, **k: stands.hit("cached", True), "every repository is known")
        if hasattr(scheduler, "evaluate_diffusion_model"):
            stands.replace("diffusion", scheduler.evaluate_diffusion_model, self._diffusion, "no model is a diffusion model")
        if model_files is not None:
            stands.state("files", "rows of downloaded files", "a node has the weights of each replica that runs or has ended there")
        Config.check_ray = lambda self: None  # asks whether vLLM is installed here; workers are described by the scenario
        self._watch()

    def _watch(self):
        """Notes what upstream computes; changes nothing of it."""
        find, selectors = scheduler.find_candidate, set()

        async def found(*args, **kwargs):
            self.seen["reached"] = True
            self.seen["candidate"], self.seen["messages"] = candidate, messages = await find(*args, **kwargs)
            if self.queue is not None:
                await self.queue.compute()
            return candidate, messages

        scheduler.find_candidate = found
        if getattr(evaluator, "scheduler", None) is not scheduler and hasattr(evaluator, "find_candidate"):
            evaluator.find_candidate = found
        for name in ("VLLMResourceFitSelector", "SGLangResourceFitSelector"):
            selector = getattr(scheduler, name, None)
            if selector is not None and selector not in selectors:
                selectors.add(selector)
                selector.select_candidates = self._watched(selector.select_candidates)

    def _watched(self, select_candidates):
        async def watched(selector, *args):
            candidates = await select_candidates(selector, *args)
            # After an error nothing is checked: the scheduler reports it, and places nothing.
            self.seen["selected"], self.seen["claim"] = True, getattr(selector, "_vram_claim", None)
            return candidates
        return watched

    def _described(self, model):
        stated = self.described.get(model.name)
        if stated is None:
            raise Fault("stand_in_unstated", f"the scenario says nothing of the model `{model.name}`")
        return stated

    def _weights(self, model, token=None):
        return self.stand_ins.hit("weights", self._described(model)["weight_bytes"])

    def _config(self, model=None, **_):
        stated = self._described(model)
        fields = dict(architectures=[stated["arch"]] if stated["arch"] else [], num_attention_heads=stated["heads"],
                      vocab_size=stated["vocab_size"])
        if stated.get("vision_heads"):
            fields["vision_config"] = types.SimpleNamespace(num_attention_heads=stated["vision_heads"], num_heads=stated["vision_heads"])
        return self.stand_ins.hit("config", types.SimpleNamespace(**fields))

    async def _diffusion(self, *args, **kwargs):
        return self.stand_ins.hit("diffusion", False)

    def _runners(self):
        """The catalog of runner images of the release decides, unless the scenario states which GPUs have an image."""
        from gpustack.policies.worker_filters.backend_framework_filter import BackendFrameworkFilter as Filter
        stands = self.stand_ins
        if hasattr(Filter, "_get_backend_supported_frameworks"):  # 2.0: one list for the backend, empty for no restriction
            stands.state("runners", f"{Filter.__module__}.{Filter.__qualname__}._get_backend_supported_frameworks", "driver.runner_gpu_types")

            async def frameworks(filter_, backend):
                return stands.hit("runners", list(self.runner_types or []))

            Filter._get_backend_supported_frameworks = frameworks
            return
        real = Filter._has_supported_runners
        stands.state("runners", f"{Filter.__module__}.{Filter.__qualname__}._has_supported_runners", "driver.runner_gpu_types")
        names = list(inspect.signature(real).parameters)
        several = "supported_versions" in inspect.getsource(Filter.filter)

        async def supported(*args, **kwargs):
            gpu_type = inspect.signature(real).bind(*args, **kwargs).arguments["gpu_type"]
            yes = self.runner_types is None or gpu_type in self.runner_types
            return stands.hit("runners", (yes, []) if several else yes)

        assert "gpu_type" in names, names
        Filter._has_supported_runners = supported

    def options(self, data):
        unknown = set(data) - {"runner_gpu_types", "analysis_seconds"}
        if unknown:
            raise Fault("unmapped", f"the driver of gpustack has no option {', '.join(sorted(unknown))}; it has: analysis_seconds, runner_gpu_types")
        seconds = data.get("analysis_seconds")
        if seconds is not None:
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 86400:
                raise Fault("unmapped", f"`analysis_seconds` is {seconds!r}; expected a number of seconds, at most a day")
            self.queue = shared.beside("gpustack_queue").Queue(self, seconds)
        if "runner_gpu_types" in data and "runners" not in self.stand_ins.asked:
            self.runner_types = data["runner_gpu_types"]
            self._runners()

    # --- the program ---

    async def _start(self):
        home = os.path.join(shared.home, "gpustack")
        self.config = Config(data_dir=home, token="dryrack", jwt_secret_key="dryrack", **known(Config, enable_ray=True))
        if "enable_ray" in Config.model_fields:
            self.config.enable_ray = True
        set_global_config(self.config)
        engine = create_async_engine("sqlite+aiosqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        setattr(db, "_engine" if hasattr(db, "_engine") else "engine", engine)
        if model_files is not None:
            for index in model_files.ModelFile.__table__.indexes:
                index.unique = False  # as upstream's migrations make it: several workers have a file of one source
        async with engine.begin() as connection:
            await connection.run_sync(SQLModel.metadata.create_all)
        self.engine = engine
        self.scheduler = scheduler.Scheduler(self.config)
        await self.tables.start(self.session)

    def session(self):
        return AsyncSession(self.engine, expire_on_commit=False)

    async def _begin(self):
        """Before each decision. Rows were changed from outside, so what upstream keeps of them by the machine's clock is old."""
        await row_cache.clear()
        evaluator.evaluate_cache.clear()
        self.seen = {}
        self.stand_ins.begin()

    async def _place(self, row):
        """Asks the real scheduler for one instance that waits."""
        await self._begin()
        async with self.session() as session:
            instance = (await session.exec(select(models.ModelInstance).where(models.ModelInstance.id == row))).one()
        await self.scheduler._schedule_one(instance)
        async with self.session() as session:
            instance = (await session.exec(select(models.ModelInstance).where(models.ModelInstance.id == row))).one()
        return instance

    def _check(self, model):
        """The stand-ins were asked, and the need that was computed is the one that they imply."""
        if not self.seen.get("selected"):
            return
        claimed = "GPUSTACK_MODEL_VRAM_CLAIM" in model["env"]
        self.stand_ins.must_have_been("config", "a selector judged the workers")
        if self.seen.get("claim") is None:
            return  # refused before the need was computed
        if claimed:
            expected = {float(model["env"]["GPUSTACK_MODEL_VRAM_CLAIM"])}
        else:
            self.stand_ins.must_have_been("weights", "a selector computed the need")
            # 0.x keeps a double, 2.x truncates the product. Whether a model without categories is an LLM is upstream's choice.
            overheads = {LLM_OVERHEAD, OTHER_OVERHEAD} if not model["categories"] else {
                LLM_OVERHEAD if "llm" in model["categories"] else OTHER_OVERHEAD}
            expected = {need + more for more in overheads for need in (model["weight_bytes"] * 1.2, int(model["weight_bytes"] * 1.2))}
        if self.seen["claim"] not in expected:
            raise Fault("stand_in_unused", f"the need of {model['name']} came out as {self.seen['claim']}, expected {sorted(expected)}")

    # --- the protocol ---

    def begin_again(self):
        self.described, self.told, self.begun, self.files = {}, {}, {}, {}
        if self.queue is not None:
            raise Fault("unmapped", "a driver with a queue decides one world in a process")
        self.loop.run_until_complete(self._emptied())

    async def _emptied(self):
        """As after the start: no rows but those that every world has."""
        self.tables = Tables()
        async with self.session() as session:
            files = () if model_files is None else (model_files.ModelFile,)
            for table in (*files, models.ModelInstance, models.Model, workers.Worker):
                await session.exec(delete(table))
            await session.commit()

    def changed(self, world):
        for run in world.runs.values():
            if run["phase"] not in ("running", "stopping") and not run["ended"]:
                continue
            repository, nodes = self.begun.get(run["run"], (None, ()))
            self.files.update({(node, repository): True for node in nodes})
            if run["ended"]:
                self.begun.pop(run["run"], None)
        self.files = {key: True for key in self.files if key[0] in world.nodes and world.nodes[key[0]]["state"] != "gone"}

    def decide(self, world, waiting):
        return self.loop.run_until_complete(self._decide(world, waiting))

    async def _decide(self, world, waiting):
        if self.queue is not None:
            return await self._decide_queued(world, waiting)
        described = Described(world)
        self.described = described.models
        await self.tables.show(self.session, described, waiting, self.files)
        decisions = []
        for run in waiting:
            job = world.jobs[world.runs[run]["job"]]
            model = described.models[job["name"]]
            must_be_served(model)
            refused = await self._validated(model)
            if refused:
                reasons = reasons_of(refused)
                decisions.append({"do": "refuse", "run": run, "text": refused[:4096], **({"reasons": reasons} if reasons else {})})
                continue
            row = self.tables.instances[run]["id"]
            instance = await self._place(row)
            self._check(model)
            decisions.append(self._decision(run, instance))
            self.begun[run] = (model["repository"], [part["node"] for part in decisions[-1].get("parts", [])])
        return {"decisions": decisions}

    async def _decide_queued(self, world, waiting):
        """Lets the program's queue go on to this moment, and says what it has decided. The model of a run that was
        cancelled stays, with no replica."""
        described = Described(world)
        described.models = {**self.described, **described.models}
        self.described = described.models
        fresh = await self.tables.show(self.session, described, waiting, self.files, is_queued=True)
        decisions, refused = [], set()
        for run in fresh:
            must_be_served(described.models[world.runs[run]["job"]])
            why = await self._validated(described.models[world.runs[run]["job"]])
            if why:
                refused.add(run)
                decisions.append({"do": "refuse", "run": run, "text": why[:4096]})
        self.world = world
        wake_at = await self.queue.step(world.now, bool(fresh))
        for run in [run for run in waiting if run not in refused]:
            async with self.session() as session:
                row = models.ModelInstance.id == self.tables.instances[run]["id"]
                instance = (await session.exec(select(models.ModelInstance).where(row))).one()
            if instance.worker_id is not None:
                decisions.append(self._decision(run, instance))
                job = world.runs[run]["job"]
                self.begun[run] = (described.models[job]["repository"], [part["node"] for part in decisions[-1]["parts"]])
                self.told.pop(run, None)
            elif instance.state == models.ModelInstanceStateEnum.PENDING and self.told.get(run) != (instance.state_message, instance.updated_at):
                self.told[run] = (instance.state_message, instance.updated_at)
                if instance.state_message:
                    self.seen = {}
                    decisions.append(self._decision(run, instance))
        return {"decisions": decisions, "wake_at": wake_at}

    async def scheduled(self, instance):
        """The consumer is done with an entry."""
        model = self.described.get(instance.model_name)
        if model is not None and not self.seen.get("reached"):
            return  # it did not compute
        if model is not None:
            self._check(model)

    async def _validated(self, model):
        """The checks of `POST /v2/models` on a pick by hand. Returns why it is refused."""
        if not model["gpu_ids"]:
            return None
        spec = models.ModelCreate(**Tables.model_fields(model, models.ModelCreate))
        async with self.session() as session:
            try:
                more = {"cluster_id": CLUSTER} if "cluster_id" in inspect.signature(routes.validate_model_in).parameters else {}
                await routes.validate_model_in(session, spec, **more)
            except Exception as refusal:
                message = getattr(refusal, "message", None)
                if message is None:
                    raise
                return str(message)

    def _decision(self, run, instance):
        if instance.worker_id is None:
            text = instance.state_message or "".join(str(message) for message in self.seen.get("messages") or [])
            reasons = reasons_of(text)
            return {"do": "wait", "run": run, "text": text[:4096], **({"reasons": reasons} if reasons else {})}
        nodes = {number: name for name, number in self.tables.workers.items()}
        claim = instance.computed_resource_claim
        parts = [part(nodes[instance.worker_id], instance.gpu_indexes, claim)]
        for other in getattr(instance.distributed_servers, SUBORDINATES, None) or []:
            parts.append(part(nodes[other.worker_id], other.gpu_indexes, other.computed_resource_claim))
        return {"do": "place", "run": run, "parts": parts}

    def evaluate(self, world, job):
        return self.loop.run_until_complete(self._evaluate(world, job))

    async def _evaluate(self, world, job):
        world.jobs.setdefault(job["name"], job)
        described = Described(world)
        self.described = described.models
        await self.tables.show(self.session, described, [], self.files)
        model = described.models[job["name"]]
        must_be_served(model)
        evaluation = await self._evaluated(model)
        texts = list(evaluation.compatibility_messages or []) + [str(text) for text in evaluation.scheduling_messages or []]
        text = "\n".join(texts)
        reasons = reasons_of(text)
        if evaluation.error:
            texts.append(evaluation.error_message)
        answer = {"fits": bool(evaluation.compatible), "text": text[:4096]}
        if not evaluation.compatible:
            # Upstream has one word for what does not fit now and what never will; only the former was scheduled.
            never = not evaluation.scheduling_messages and not evaluation.error
            answer.update(**({"reasons": reasons} if reasons else {}), **({"never": True} if never else {}))
        return answer

    async def _evaluated(self, model):
        await self._begin()
        spec = evaluator.ModelSpec(**Tables.model_fields(model, evaluator.ModelSpec))
        async with self.session() as session:
            have = {"config": self.config, "session": session, "model": spec, "workers": list(await workers.Worker.all(session)),
                    "model_instances": list(await models.ModelInstance.all(session)), "cluster_id": CLUSTER}
            wanted = inspect.signature(evaluator.evaluate_model_with_cache).parameters
            result = await evaluator.evaluate_model_with_cache(**{name: value for name, value in have.items() if name in wanted})
        self._check(model)
        return result

    # --- records ---

    def compare(self, case):
        """One recorded decision (`place` or `evaluate`) against the one made now."""
        request, answer = case["request"], case["answer"]
        if "runners" not in self.stand_ins.asked and hasattr(gpustack.policies, "worker_filters"):
            try:
                self._runners()
            except ImportError:
                self.stand_ins.asked["runners"] = 0
        self.runner_types = request.get("runner_gpu_types")
        self.described = {request["model"]["name"]: request["model"]}
        now = self.loop.run_until_complete(self._recorded(numbered(request)))
        answer = {**answer, "candidate": named(answer["candidate"])} if answer.get("candidate") else answer
        differs = {}
        for key in [key for key in ("candidate", "error", "evaluation") if key in answer or key in now]:
            if not same(answer.get(key), now.get(key)):
                differs[key] = {"recorded": answer.get(key), "now": now.get(key)}
        return {"id": request["id"], "differs": differs}

    async def _recorded(self, request):
        await self.tables.show_record(self.session, request)
        if request["op"] == "evaluate":
            found = await self._evaluated(request["model"])
            if found.error:
                return {"error": found.error_message}
            claim = found.resource_claim
            return {"evaluation": {
                "compatible": found.compatible, "compatibility_messages": list(found.compatibility_messages or []),
                "scheduling_messages": [str(text) for text in found.scheduling_messages or []],
                "ram": claim.ram if claim else None, "vram": claim.vram if claim else None}}
        instance = await self._place(self.tables.waiting)
        self._check(request["model"])
        if instance.worker_id is None:
            failed = (instance.state_message or "").removeprefix("Failed to find candidate: ")
            return {"error": failed} if failed != (instance.state_message or "") else {"candidate": None}
        names = {worker["id"]: worker["name"] for worker in request["workers"]}
        candidate = self.seen["candidate"]
        written = {"worker": names[instance.worker_id], "gpu_indexes": list(instance.gpu_indexes or []),
                   "vram": claim_of(instance.computed_resource_claim), "ram": instance.computed_resource_claim.ram,
                   "score": candidate.score, "overcommit": bool(candidate.overcommit), "subordinates": [
                       {"worker": names[other.worker_id], "gpu_indexes": list(other.gpu_indexes or []),
                        "vram": claim_of(other.computed_resource_claim)}
                       for other in getattr(instance.distributed_servers, SUBORDINATES, None) or []]}
        return {"candidate": written}


def must_be_served(model):
    """0.x serves models of speech by vox-box, whose package no lock has; without it the scheduler reports an error, which it
    would not on a server."""
    is_audio = getattr(scheduler, "is_audio_model", None)
    if is_audio is not None and is_audio(models.ModelCreate(**Tables.model_fields(model, models.ModelCreate))):
        raise Fault("unmapped", f"this release serves models of speech by vox-box, which is not installed (job `{model['name']}`)")


def numbered(request):
    """The request with workers numbered in the order of its rows, which is the order in which SQLite returns them."""
    numbers = {worker["id"]: number for number, worker in enumerate(request["workers"], 1)}
    for worker in request["workers"]:
        worker["id"] = numbers[worker["id"]]
    for instance in request["instances"]:
        for at in [instance, *instance["subordinates"]]:
            at["worker_id"] = numbers[at["worker_id"]]
    return request


def named(candidate):
    """The candidate without the numbers of its workers."""
    without = lambda at: {key: value for key, value in at.items() if key != "worker_id"}
    return {**without(candidate), "subordinates": [without(other) for other in candidate["subordinates"]]}


def same(recorded, now):
    """Equal, with scores to one part in a billion. `now` may say less than the record, as the row does."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return all(same(recorded[key], now[key]) for key in now if key in recorded)
    if isinstance(recorded, list) and isinstance(now, list):
        return len(recorded) == len(now) and all(map(same, recorded, now))
    if isinstance(recorded, float) or isinstance(now, float):
        return recorded is not None and now is not None and abs(recorded - now) <= 1e-9 * max(1.0, abs(recorded))
    if isinstance(recorded, str) and isinstance(now, str) and ": " in recorded:
        return recorded == now or recorded.split(": ", 1)[1] == now  # the scheduler keeps an exception without its class
    return recorded == now


def claim_of(claim):
    return {str(index): memory for index, memory in ((claim.vram if claim else None) or {}).items()}


def part(node, indexes, claim):
    memory = {int(index): bytes_ for index, bytes_ in ((claim.vram if claim else None) or {}).items()}
    return {"node": node, "gpus": [{"index": index, "memory": memory.get(index, 0)} for index in indexes or []],
            "ram": (claim.ram if claim else 0) or 0, "cpu_milli": 0}


COUNTED = ((re.compile(r"Matched (\d+)/(\d+) workers by READY status"), "node_not_ready"),
           (re.compile(r"Matched (\d+)/(\d+) workers by label selector"), "label_mismatch"))


NAMED = (("backend is not supported on", "backend_vendor_mismatch"),)


def reasons_of(text):
    """The counts that upstream's messages state."""
    reasons = {}
    for text_, name in NAMED:
        if text_ in text:
            reasons[name] = 1
    for pattern, name in COUNTED:
        for matched, of in pattern.findall(text):
            if int(of) > int(matched):
                reasons[name] = int(of) - int(matched)
    return reasons


class Described:
    """The world in GPUStack's words: workers, models, and the instances that are placed."""

    def __init__(self, world):
        self.models, self.workers, self.placed = {}, [], []
        for number, node in enumerate(world.nodes.values(), 1):
            if node["state"] != "gone":
                self.workers.append(worker_of(number, node))
        numbers = {worker["name"]: worker for worker in self.workers}
        # A model keeps its number when another one is gone, as rows do.
        known = vars(world).setdefault("model_numbers", {})
        for job in world.jobs.values():
            number = known.setdefault(job["name"], len(known) + 1)
            self.models[job["name"]] = model_of(number, job, numbers)
        for run in world.runs.values():
            if run["parts"] and not run["ended"] and run["job"] in self.models:
                self.placed.append(instance_of(run, self.models[run["job"]], numbers))
        self.runs = world.runs


def kind_of(gpu):
    kinds = {"nvidia": "cuda", "amd": "rocm", "apple": "mps"}
    if gpu["vendor"] not in kinds:
        raise Fault("unmapped", f"gpustack's driver knows no GPU of vendor `{gpu['vendor']}`; it knows {', '.join(kinds)}")
    return kinds[gpu["vendor"]]


def worker_of(number, node):
    state = {"joining": "not_ready", "ready": "ready", "not_ready": "not_ready", "unreachable": "unreachable", "maintenance": "not_ready"}
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(node["arch"], "amd64")  # as upstream's workers label themselves
    labels = {"os": node["os"] or "linux", "arch": arch, "worker-name": node["name"], **node["labels"]}
    gpus = [{"index": gpu["index"], "name": gpu["type"], "vendor": gpu["vendor"], "type": kind_of(gpu), "vram": gpu["memory"],
             "compute_capability": gpu["compute_capability"]} for gpu in node["gpus"]]
    return {"id": number, "name": node["name"], "state": state[node["state"]], "labels": labels, "ram": node["ram"],
            "unified_memory": any(gpu["unified"] for gpu in node["gpus"]),
            "reserved": {"ram": node["reserved"]["ram"], "vram": node["reserved"]["gpu_memory"]}, "gpus": gpus}


def model_of(number, job, numbers):
    model = job["model"]
    if model is None:
        raise Fault("unmapped", f"gpustack places models; job `{job['name']}` asks for something else")
    if model["backend"] not in ("vllm", "sglang"):
        raise Fault("unmapped", f"gpustack's driver does not estimate files for `{model['backend'].replace('_', '-')}` (job `{job['name']}`)")
    return {"id": number, "name": job["name"], "repository": model["name"], "backend": model["backend"], "categories": list(model["categories"]),
            "weight_bytes": model["weights"], "heads": model["heads"], "vision_heads": model["vision_heads"], "arch": model["architecture"],
            "vocab_size": model["vocabulary"], "placement": model["strategy"], "distributed": model["distributable"],
            "replicas": job["replicas"], "worker_selector": model["selector"], "gpu_ids": gpu_ids(job, numbers),
            "gpus_per_replica": model["gpus_per_replica"], "backend_parameters": list(model["arguments"]), "env": dict(model["environment"])}


def gpu_ids(job, numbers):
    pick = job["pick"]
    if pick is None:
        return None
    chosen = pick.get("gpus") or pick.get("all_gpus")
    if chosen is None:
        raise Fault("unmapped", f"in gpustack GPUs are picked, not nodes (job `{job['name']}`)")
    kinds = {(name, gpu["index"]): gpu["type"] for name, worker in numbers.items() for gpu in worker["gpus"]}
    return [f"{node}:{kinds.get((node, index), 'cuda')}:{index}" for node, index in chosen]


def instance_of(run, model, numbers):
    main, others = run["parts"][0], run["parts"][1:]
    held = lambda at: {str(gpu["index"]): gpu["memory"] for gpu in at["gpus"]}
    kind = lambda at: next((gpu["type"] for gpu in numbers[at["node"]]["gpus"] if any(gpu["index"] == held["index"] for held in at["gpus"])), None)
    states = {"scheduled": "scheduled", "preparing": "starting", "running": "running", "stopping": "running"}
    return {"run": run["run"], "name": run["run"].replace("/", "-"), "model_id": model["id"], "model_name": model["name"],
            "state": states.get(run["phase"], "scheduled"), "worker_id": numbers[main["node"]]["id"], "gpu_type": kind(main),
            "gpu_indexes": [gpu["index"] for gpu in main["gpus"]], "vram": held(main), "ram": main["ram"],
            "subordinates": [{"worker_id": numbers[at["node"]]["id"], "gpu_type": kind(at), "vram": held(at),
                              "gpu_indexes": [gpu["index"] for gpu in at["gpus"]]} for at in others]}


class Tables:
    """Rows of the program's database, kept equal to what dryrack says. A row that has not changed is left alone."""

    def __init__(self):
        self.workers, self.instances, self.rows = {}, {}, {}

    async def start(self, session):
        """What every world has: one cluster, to which everything belongs (2.x)."""
        try:
            from gpustack.schemas.clusters import Cluster
        except ImportError:
            return
        async with session() as open_:
            open_.add(Cluster(id=CLUSTER, name="default", **known(Cluster, provider="Docker", state="ready", hashed_suffix="", registration_token="", owner_principal_id=OWNER)))
            await open_.commit()

    async def _put(self, session, table, key, stated, row):
        """Writes `row(stated)` unless the same was written before."""
        said = json.dumps(stated, sort_keys=True)
        if self.rows.get((table, key)) == said:
            return False
        async with session() as open_:
            await open_.exec(delete(table).where(table.id == key))
            open_.add(row)
            await open_.commit()
        self.rows[(table, key)] = said
        return True

    @staticmethod
    async def _reconciled(session, number):
        """What the controller of models does to a model before its instances are made (releases before 2.1)."""
        default = getattr(controllers, "set_default_worker_selector", None)
        if default is not None:
            async with session() as open_:
                await default(open_, (await open_.exec(select(models.Model).where(models.Model.id == number))).one())

    async def _drop(self, session, table, keys):
        gone = [key for of, key in self.rows if of is table and key not in keys]
        if gone:
            async with session() as open_:
                await open_.exec(delete(table).where(table.id.in_(gone)))
                await open_.commit()
            for key in gone:
                del self.rows[(table, key)]

    async def show(self, session, described, waiting, files, is_queued=False):
        """Makes the tables say what the world says. Returns the runs that are new. With a queue, the row of a run that
        waits is the program's once it is there."""
        fresh = []
        await self._drop(session, workers.Worker, {worker["id"] for worker in described.workers})
        self.workers = {worker["name"]: worker["id"] for worker in described.workers}
        for worker in described.workers:
            await self._put(session, workers.Worker, worker["id"], worker, Tables.worker(worker))
        await self._drop(session, models.Model, {model["id"] for model in described.models.values()})
        for model in described.models.values():
            if await self._put(session, models.Model, model["id"], model, Tables.model(model)):
                await self._reconciled(session, model["id"])
        if model_files is not None:
            have = [at for at in files if at[0] in self.workers]
            await self._drop(session, model_files.ModelFile, set(range(1, len(have) + 1)))
            for number, (node, repository) in enumerate(have, 1):
                stated = {"worker_id": self.workers[node], "repository": repository}
                await self._put(session, model_files.ModelFile, number, stated, Tables.file(number, **stated))
        placed = {instance["run"]: instance for instance in described.placed}
        for run in [run for run in self.instances if run not in placed and run not in waiting]:
            del self.instances[run]
        await self._drop(session, models.ModelInstance, {instance["id"] for instance in self.instances.values()})
        for run in list(placed) + [run for run in waiting if run not in placed]:
            number = self.instances[run]["id"] if run in self.instances else max([kept["id"] for kept in self.instances.values()], default=0) + 1
            if run in placed:
                stated = {**placed[run], "id": number}
            else:
                model = described.models[described.runs[run]["job"]]
                stated = {"id": number, "run": run, "name": run.replace("/", "-"), "model_id": model["id"], "model_name": model["name"],
                          "state": "analyzing", "worker_id": None, "gpu_type": None, "gpu_indexes": None, "vram": None, "ram": None, "subordinates": []}
                if run in self.instances and is_queued:
                    continue
                fresh.append(run)
                if is_queued:
                    stated["state"] = "pending"
                self.rows.pop((models.ModelInstance, number), None)  # the scheduler has written to it
            self.instances[run] = stated
            await self._put(session, models.ModelInstance, number, stated, Tables.instance(stated))
        return fresh

    async def show_record(self, session, request):
        """The world of a recorded request, in an empty database, with one more instance that waits."""
        model, others = request["model"], {}
        for instance in request["instances"]:
            if instance["model_id"] != model["id"]:
                others[instance["model_id"]] = {**model, "id": instance["model_id"], "name": instance["model_name"]}
        self.waiting = max([instance["id"] for instance in request["instances"]], default=0) + 1
        async with session() as open_:
            for table in (models.ModelInstance, models.Model, workers.Worker):
                await open_.exec(delete(table))
            for worker in request["workers"]:
                open_.add(Tables.worker(worker))
            for stated in [model, *others.values()]:
                open_.add(Tables.model(stated))
            await open_.commit()
            for instance in request["instances"]:
                open_.add(Tables.instance(instance))
            if request["op"] == "place":
                open_.add(Tables.instance({"id": self.waiting, "name": f"{model['name']}-waits", "model_id": model["id"], "model_name": model["name"],
                                           "state": "analyzing", "worker_id": None, "gpu_type": None, "gpu_indexes": None, "vram": None,
                                           "ram": None, "subordinates": []}))
            await open_.commit()

    @staticmethod
    def worker(stated):
        number = stated["id"]
        device = lambda gpu: GPU(
            index=gpu["index"], name=gpu["name"], vendor=gpu["vendor"] if hasattr(workers, "GPUDeviceStatus") and GPU_VENDOR_LOWER else VENDORS[gpu["vendor"]],
            memory=workers.MemoryInfo(total=gpu["vram"], is_unified_memory=stated["unified_memory"]),
            **known(GPU, type=gpu["type"], compute_capability=gpu.get("compute_capability")))
        return workers.Worker(
            id=number, name=stated["name"], hostname=stated["name"], ip=f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}", port=10150,
            labels=dict(stated["labels"]), state=workers.WorkerStateEnum(stated["state"]),
            system_reserved=workers.SystemReserved(ram=stated["reserved"]["ram"], vram=stated["reserved"]["vram"]),
            status=workers.WorkerStatus(memory=workers.MemoryInfo(total=stated["ram"], is_unified_memory=stated["unified_memory"]),
                                        gpu_devices=[device(gpu) for gpu in stated["gpus"]]),
            **known(workers.Worker, worker_uuid=str(number), cluster_id=CLUSTER, owner_principal_id=OWNER, ifname="eth0", advertise_address=""))

    @staticmethod
    def file(number, worker_id, repository):
        of = model_files.ModelFile
        row = of(id=number, worker_id=worker_id, state=model_files.ModelFileStateEnum.READY, source=models.SourceEnum.HUGGING_FACE,
                 huggingface_repo_id=repository, resolved_paths=[], **known(of, cluster_id=CLUSTER, owner_principal_id=OWNER))
        row.source_index = row.model_source_index
        return row

    @staticmethod
    def model_fields(stated, of):
        chosen = stated["gpu_ids"] and models.GPUSelector(gpu_ids=list(stated["gpu_ids"]), **known(models.GPUSelector, gpus_per_replica=stated.get("gpus_per_replica")))
        backends = {"vllm": models.BackendEnum.VLLM, "sglang": getattr(models.BackendEnum, "SGLANG", None)}
        backend = backends[stated["backend"]]
        if backend is None:
            raise Fault("unmapped", f"this release of gpustack has no backend `{stated['backend']}`")
        return dict(
            name=stated["name"], replicas=stated["replicas"], source=models.SourceEnum.HUGGING_FACE,
            huggingface_repo_id=stated.get("repository") or "golden/model", backend=backend,
            placement_strategy=models.PlacementStrategyEnum(stated["placement"]), distributed_inference_across_workers=stated["distributed"],
            cpu_offloading=False, categories=[models.CategoryEnum(category) for category in stated["categories"]],
            worker_selector=None if stated["worker_selector"] is None else dict(stated["worker_selector"]), gpu_selector=chosen or None,
            backend_parameters=list(stated["backend_parameters"]), env=dict(stated["env"]),
            **known(of, distributable=False, cluster_id=CLUSTER, owner_principal_id=OWNER, ready_replicas=0))

    @staticmethod
    def model(stated):
        return models.Model(id=stated["id"], **Tables.model_fields(stated, models.Model))

    @staticmethod
    def instance(stated):
        claim = lambda vram, ram: models.ComputedResourceClaim(vram={int(index): held for index, held in vram.items()}, ram=ram)
        others = [SUBORDINATE(
            worker_id=other["worker_id"], total_gpus=len(other["gpu_indexes"]), gpu_indexes=list(other["gpu_indexes"]),
            computed_resource_claim=claim(other["vram"], 0), **known(SUBORDINATE, worker_ip="10.0.0.1", gpu_type=other["gpu_type"]))
            for other in stated["subordinates"]]
        placed = stated["worker_id"] is not None
        return models.ModelInstance(
            id=stated["id"], name=stated["name"], model_id=stated["model_id"], model_name=stated["model_name"],
            state=models.ModelInstanceStateEnum(stated["state"]), source=models.SourceEnum.HUGGING_FACE, huggingface_repo_id="golden/model",
            worker_id=stated["worker_id"], gpu_indexes=list(stated["gpu_indexes"]) if placed else None,
            computed_resource_claim=claim(stated["vram"], stated["ram"]) if placed else None,
            distributed_servers=models.DistributedServers(**{SUBORDINATES: others}) if others else None,
            **known(models.ModelInstance, cluster_id=CLUSTER, owner_principal_id=OWNER, gpu_type=stated["gpu_type"]))


# 0.x names vendors as its detector prints them, 2.x by a lower-case enum.
GPU_VENDOR_LOWER = hasattr(workers, "GPUDeviceStatus") and hasattr(models, "ModelInstanceSubordinateWorker") and not hasattr(models, "RayActor") and "gpu_type" in models.ModelInstanceSubordinateWorker.model_fields

"""Drives the scheduler of a released Ray autoscaler (v2): `ResourceDemandScheduler.schedule`, a pure function.

It is asked which nodes there should be for what waits. Its plan says on which node, or on which new one, each request
lies. Nothing tests the version.
"""

import time

import dryrack_driver as shared
from dryrack_driver import Fault

import ray
from ray.autoscaler.v2 import scheduler
from ray.autoscaler.v2.instance_manager.config import NodeTypeConfig
from ray.autoscaler.v2.schema import AutoscalerInstance
from ray.autoscaler.v2.utils import ResourceRequestUtil
from ray.core.generated.autoscaler_pb2 import GangResourceRequest, NodeState
from ray.core.generated.common_pb2 import LabelSelectorOperator
from ray.core.generated.instance_manager_pb2 import Instance

Planner = scheduler.ResourceDemandScheduler
PENDING = scheduler.ResourceRequestSource.PENDING_DEMAND
PLACEMENT_GROUP = "_PG"  # the label by which Ray keeps the bundles of a group apart, or together
TYPE_SHARE = 0.001  # what Ray's own `accelerator_type` option asks for


def driver():
    return Driver()


class Driver:
    name, wants, can = "ray", [], ["again"]

    def __init__(self):
        self.version = ray.__version__
        self.understood = set()
        self.stand_ins = shared.StandIns()
        self.calls = []
        self.now = 0
        stands = self.stand_ins
        stands.state("state", "the state of the cluster (GCS) and of its instances", "nodes, fleets and runs")
        stands.state("raylets", "the raylets, which start tasks on nodes and choose GPUs", "the plan's nodes; the lowest GPUs or blocks that are free")
        stands.state("clock", "scheduler.time", "the virtual time")
        scheduler.time = _Clock(self)
        self._watch()

    def _watch(self):
        """Notes what upstream computes; changes nothing of it."""
        for name in ("_try_schedule", "_sched_gang_resource_requests"):
            if not hasattr(Planner, name):
                raise Fault("seam_missing", f"{Planner.__qualname__}.{name} is nowhere to be watched")
        try_schedule, make = Planner._try_schedule, scheduler.SchedulingNode.from_node_config
        numbers = iter(range(1 << 62))

        def made(*args, **kwargs):
            node = make(*args, **kwargs)
            node.dryrack_new = (node.node_type, next(numbers))  # a copy keeps it
            return node

        def tried(ctx, requests, *args, **kwargs):
            source = kwargs.get("resource_request_source", args[0] if args else None)
            before = {key_of(node): len(node.sched_requests[PENDING]) for node in ctx.get_nodes()}
            nodes, infeasible = try_schedule(ctx, requests, *args, **kwargs)
            if source == PENDING:
                added = [(key_of(node), one.SerializeToString(deterministic=True))
                         for node in nodes for one in node.sched_requests[PENDING][before.get(key_of(node), 0):]]
                self.calls.append((sorted(one.SerializeToString(deterministic=True) for one in requests), added, bool(infeasible)))
            return nodes, infeasible

        scheduler.SchedulingNode.from_node_config = staticmethod(made)
        Planner._try_schedule = staticmethod(tried)

    def options(self, data):
        if data:
            raise Fault("unmapped", f"the driver of ray has no option {', '.join(sorted(data))}; it has none")

    def begin_again(self):
        pass  # nothing is kept from one question to the next

    def changed(self, world):
        pass

    def decide(self, world, waiting):
        self.now = world.now
        cluster = Cluster(world)
        # A run whose instance is on its way is not up: Ray still counts it among what is asked for.
        starting = [name for name, run in world.runs.items() if run["parts"] and not run["ended"] and cluster.is_starting(run)]
        asked = [*starting, *waiting]
        singles, gangs = [], []
        for name in asked:
            requests = requests_of(name, world.jobs[world.runs[name]["job"]])
            (gangs if len(requests) > 1 else singles).append((name, requests))
        self.calls = []
        self.stand_ins.begin()
        request = scheduler.SchedulingRequest(
            disable_launch_config_check=True, node_type_configs=cluster.types, current_instances=cluster.instances,
            resource_requests=ResourceRequestUtil.group_by_count([requests[0] for _, requests in singles]),
            gang_resource_requests=[GangResourceRequest(requests=requests) for _, requests in gangs])
        reply = Planner().schedule(request)
        if len(self.calls) != len(gangs) + 1:
            raise Fault("stand_in_unused", f"{len(gangs)} gangs and the single requests took {len(self.calls)} steps, which is not their number plus one")
        plan = self._plan(singles, gangs)
        self._check(reply, plan)
        decisions = []
        for name in waiting:
            decisions.append(cluster.decision(name, world.jobs[world.runs[name]["job"]], plan.get(name)))
        return {"decisions": decisions}

    def _plan(self, singles, gangs):
        """Where each run lies: for each bundle its node and its request, as Ray has it. Equal requests are one to Ray;
        the first in the queue gets the first place."""
        *of_gangs, of_singles = self.calls
        plan, left = {}, list(gangs)
        for asked, added, infeasible in of_gangs:
            at = next(at for at, (_, requests) in enumerate(left) if bundles(requests) == asked)
            name, _ = left.pop(at)
            if not infeasible:
                plan[name] = added
        places = {}
        for node, one in of_singles[1]:
            places.setdefault(one, []).append(node)
        for name, requests in singles:
            one = requests[0].SerializeToString(deterministic=True)
            if found := places.get(one):
                plan[name] = [(found.pop(0), one)]
        return plan

    def _check(self, reply, plan):
        """What the plan puts on new nodes is what Ray launches: no request was read in another way than Ray did."""
        planned, launched = {}, {launch.instance_type: launch.count for launch in reply.to_launch}
        for kind, _ in {key for places in plan.values() for key, _ in places if isinstance(key, tuple)}:
            planned[kind] = planned.get(kind, 0) + 1
        if planned != launched:
            raise Fault("stand_in_unused", f"the plan has the new nodes {planned}, and Ray launches {launched}")
        if launched and not self.stand_ins.was_asked("clock"):
            raise Fault("stand_in_unused", "`clock` was not asked, although nodes are launched")

    # --- records ---

    def compare(self, case):
        return None  # no decision of Ray is recorded


class _Clock:
    """Ray's clock is dryrack's."""

    def __init__(self, driver):
        self.driver = driver

    def time_ns(self):
        return self.driver.stand_ins.hit("clock", self.driver.now)

    def time(self):
        return self.driver.stand_ins.hit("clock", self.driver.now / 1e9)

    monotonic = time


def key_of(node):
    return node.im_instance_id or getattr(node, "dryrack_new", None)


def bundles(requests):
    combined = ResourceRequestUtil.combine_requests_with_affinity(requests)
    return sorted(one.SerializeToString(deterministic=True) for one in combined)


def requests_of(run, job):
    """What a run asks for, one request for each node or task. A gang is a placement group."""
    return [request for requests in requests_of_sets(run, job).values() for request in requests]


def requests_of_sets(run, job):
    """The requests of each kind of task; the only kind of other gangs has the name None."""
    if job["sets"]:
        if any(of["min_tasks"] < of["tasks"] for of in job["sets"]):
            raise Fault("unmapped", f"a placement group of ray has a fixed number of bundles (job `{job['name']}`)")
        sets = {of["name"]: (bundle_of_task(job, of["task"]), of["tasks"]) for of in job["sets"]}
    elif job["task"]:
        sets = {None: (bundle_of_task(job, job["task"]), job["tasks"])}
    elif job["requirements"]:
        sets = {None: (bundle_of_requirements(job), job["tasks"])}
    else:
        raise Fault("unmapped", f"ray places tasks and bundles; job `{job['name']}` is a model")
    if job["pick"]:
        raise Fault("unmapped", f"in ray no node is picked by hand (job `{job['name']}`)")
    kind = ResourceRequestUtil.PlacementConstraintType
    constraint = None
    if job["tasks"] > 1:
        spread = job["gang"] == "spread" or job["requirements"]
        # Of unequal bundles, PACK and SPREAD are wishes, which the autoscaler does not see.
        kinds = {"strict_pack" if job["sets"] else "packed": kind.AFFINITY} if not spread else {}
        wanted = kind.ANTI_AFFINITY if spread else kinds.get(job["gang"])
        constraint = [(wanted, PLACEMENT_GROUP, run)] if wanted else None
    return {name: [ResourceRequestUtil.make(bundle, constraint, selector and [selector]) for _ in range(count)]
            for name, ((bundle, selector), count) in sets.items()}


def bundle_of_task(job, task):
    if task["os"] or task["arch"]:
        raise Fault("unmapped", f"ray knows no operating systems and architectures (job `{job['name']}`)")
    bundle = {"CPU": task["cpu_milli"] / 1000, "memory": task["ram"]}
    gpus = task["gpus"]
    if gpus:
        if gpus["take"] == "memory" or gpus["min_memory"] or len(gpus["types"]) > 1:
            raise Fault("unmapped", f"ray counts GPUs, and knows one type of them in a request (job `{job['name']}`)")
        bundle["GPU"] = gpus["count"] * (gpus["share"] or 1000) / 1000
        for kind in gpus["types"]:
            bundle[f"accelerator_type:{kind}"] = TYPE_SHARE
    selector = [(key, LabelSelectorOperator.LABEL_OPERATOR_IN, [value]) for key, value in sorted(task["labels"].items())]
    return {name: amount for name, amount in bundle.items() if amount}, selector


def bundle_of_requirements(job):
    needs, gpu = job["requirements"], job["requirements"]["gpu"] or {}
    others = [name for name in ("backends", "regions", "fleets") if needs[name]] + [name for name in ("arch", "max_price_micros") if needs[name] is not None]
    others += [name for name in ("vendor", "memory", "total_memory", "compute_capability") if gpu.get(name)]
    others += ["spot"] if needs["spot"] == "spot" else []
    others += ["several types of GPU"] if len(gpu.get("names", [])) > 1 else []
    if others:
        raise Fault("unmapped", f"ray asks for CPUs, memory, GPUs and one type of GPU; job `{job['name']}` also states {', '.join(others)}")
    bundle = {"CPU": needs["cpu"]["min"] or 0, "memory": needs["memory"]["min"] or 0,
              "GPU": (gpu["count"]["min"] or 0) if gpu.get("count") else 0}
    for kind in gpu.get("names", []):
        bundle[f"accelerator_type:{kind}"] = TYPE_SHARE
    return {name: amount for name, amount in bundle.items() if amount}, None


class Cluster:
    """The nodes in Ray's words. What a cloud could still make is a node type; what is there is an instance."""

    def __init__(self, world):
        self.types, self.instances, self.offers, self.world = {}, [], {}, world
        self.held = {}  # node: GPUs or blocks that the answer has taken
        if any(node["instance"] and node["instance"]["spot"] for node in world.nodes.values()):
            raise Fault("unmapped", "ray's autoscaler knows no spot instances")
        for node in world.nodes.values():
            at = node["instance"]
            if node["state"] == "gone" and at and at["offer"] is not None:
                self.offers.setdefault(f"{at['fleet']}/{at['offer']}", []).append(node)
        room = {name: fleet["instances_left"] for name, fleet in world.fleets.items()}
        for kind, nodes in self.offers.items():
            fleet, offer = kind.rsplit("/", 1)
            left = world.fleets[fleet]["offers"][int(offer)]["capacity_left"]
            here = sum(1 for node in world.nodes.values() if self.is_of(node, fleet, int(offer)) and node["state"] != "gone")
            most = min([len(nodes), room[fleet], *([left] if left is not None else [])])
            self.types[kind] = NodeTypeConfig(name=kind, min_worker_nodes=0, max_worker_nodes=here + most, resources=total(nodes[0]), labels=dict(nodes[0]["labels"]))
        for node in world.nodes.values():
            if node["state"] == "ready":
                # A machine that no cloud made is a node type of its own, of which no more can be launched.
                self.types.setdefault(self.kind(node), NodeTypeConfig(
                    name=self.kind(node), min_worker_nodes=0, max_worker_nodes=1, resources=total(node), labels=dict(node["labels"])))
                self.instances.append(self.running(node))
            elif node["state"] == "joining" and node["instance"] and node["instance"]["offer"] is not None:
                self.instances.append(self.pending(node))

    @staticmethod
    def is_of(node, fleet, offer):
        at = node["instance"]
        return bool(at) and at["fleet"] == fleet and at["offer"] == offer

    def is_starting(self, run):
        return any(self.world.nodes[part["node"]]["state"] == "joining" for part in run["parts"])

    @staticmethod
    def kind(node):
        at = node["instance"]
        return f"{at['fleet']}/{at['offer']}" if at and at["offer"] is not None else node["name"]

    def running(self, node):
        state = NodeState(ray_node_type_name=self.kind(node), total_resources=total(node), available_resources=free(node), labels=dict(node["labels"]))
        instance = Instance(instance_id=node["name"], instance_type=self.kind(node), status=Instance.RAY_RUNNING, node_id=node["name"])
        return AutoscalerInstance(ray_node=state, im_instance=instance, cloud_instance_id=node["name"])

    def pending(self, node):
        instance = Instance(instance_id=node["name"], instance_type=self.kind(node), status=Instance.ALLOCATED)
        return AutoscalerInstance(im_instance=instance, cloud_instance_id=node["name"])

    def decision(self, run, job, planned):
        if planned is None:
            return {"do": "wait", "run": run, "text": "infeasible: no node has room, and no node type may be launched for it"}
        places, requests = [], requests_of_sets(run, job)
        if len(planned) < job["tasks"]:
            # Bundles of a placement group that is packed strictly are one request.
            places = [(planned[0][0], name) for name, own in requests.items() for _ in own]
        else:
            # Equal bundles of two kinds are one kind to Ray, so each kind takes as many of their places as it has tasks.
            left = {name: [bundles([one])[0] for one in own] for name, own in requests.items()}
            for key, one in planned:
                name = next(name for name, own in left.items() if one in own)
                left[name].remove(one)
                places.append((key, name))
        counts = {}
        for key, of in places:
            name = self._node(key)
            if name is None:
                return {"do": "wait", "run": run, "text": "planned on a node that is on its way"}
            counts[name, of] = counts.get((name, of), 0) + 1
        return {"do": "place", "run": run, "parts": [self._part(name, job, of, tasks) for (name, of), tasks in counts.items()]}

    def _node(self, key):
        """The node of the plan's node: a new one takes the next offer of its type; one on its way takes nothing yet."""
        if isinstance(key, tuple):
            made = vars(self).setdefault("made", {})
            if key not in made:
                made[key] = self.offers[key[0]].pop(0)["name"]
            return made[key]
        return None if self.world.nodes[key]["state"] == "joining" else key

    def _part(self, name, job, of, tasks):
        node, taken = self.world.nodes[name], self.held.setdefault(name, set())
        if job["requirements"]:
            at = node["instance"]
            each = {key: amount / at["blocks"] for key, amount in total(node).items()}
            wanted = bundle_of_requirements(job)[0]
            count = max([1, *(-int(-amount // each[key]) for key, amount in wanted.items() if key in ("CPU", "memory", "GPU"))])
            blocks = [block for block in range(at["blocks"]) if block not in at["blocks_taken"] and block not in taken][:count]
            taken.update(blocks)
            return {"node": name, "blocks": blocks}
        task = next(one["task"] for one in job["sets"] if one["name"] == of) if of else job["task"]
        gpus, need = [], task["gpus"]
        if need:
            share = need["share"] or 1000
            for gpu in node["gpus"]:
                left = gpu["share_free"] - sum(held for index, held in taken_of(taken) if index == gpu["index"])
                while len(gpus) < need["count"] * tasks and left >= share and (share < 1000 or gpu["index"] not in gpus):
                    gpus.append(gpu["index"])
                    left -= share
            taken.update((at, index, share) for at, index in enumerate(gpus, len(taken)))
        return {"node": name, "tasks": tasks, "gpus": gpus, **({"set": of} if of else {})}


def taken_of(taken):
    return [(index, share) for _, index, share in taken]


def total(node):
    return amounts(node, node["cpu_milli"] - node["reserved"]["cpu_milli"], node["ram"] - node["reserved"]["ram"], 1000 * len(node["gpus"]))


def free(node):
    at = node["instance"]
    if at and at["blocks"]:
        part = (at["blocks"] - len(at["blocks_taken"])) / at["blocks"]
        return {key: amount * part if key in ("CPU", "memory", "GPU") else amount for key, amount in total(node).items()}
    usable = [gpu["share_free"] for gpu in node["gpus"] if gpu["state"] in ("ready", "degraded")]
    return amounts(node, node["cpu_free_milli"], node["ram_free"], sum(usable))


def amounts(node, cpu, ram, share):
    kinds = {f"accelerator_type:{gpu['type']}": 1.0 for gpu in node["gpus"]}
    stated = {"CPU": cpu / 1000, "memory": float(ram), "GPU": share / 1000}
    return {**{key: amount for key, amount in stated.items() if key != "GPU" or node["gpus"]}, **kinds}

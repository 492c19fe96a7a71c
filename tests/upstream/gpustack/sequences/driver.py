"""Which call is made when, and what is written down after it."""
import asyncio
import copy
import heapq

import clock
import plant
from plant import AsyncSession, M, S, W, controllers, serve_manager, services, worker_syncer

from gpustack.server.bus import Event, EventType, event_bus

HEARTBEAT, SYNCER, SCAN, POLL = 30_000, 15_000, 180_000, 10_000


class Driver:
    def __init__(self, engine, case):
        self.engine, self.case = engine, case
        self.models = {spec["name"]: spec for spec in case["models"]}
        self.steps, self.events, self.due, self.number = [], [], [], 0
        # When the last heartbeat came of those that send none; which of them do not answer a probe either.
        self.silent, self.cut, self.came_back = {}, set(), {}
        self.scheduler = S.Scheduler(plant.config)
        self.syncer = worker_syncer.WorkerSyncer()
        self.syncer.is_worker_reachable = self.is_reachable
        self.model_controller = controllers.ModelController(plant.config)
        self.instance_controller = controllers.ModelInstanceController(plant.config)
        self.worker_controller = controllers.WorkerController()
        self.busy, self.entered, self.gate = None, asyncio.Event(), asyncio.Event()
        self.placed = None
        self.seen = {}
        event_bus.publish = self.publish

    async def publish(self, topic, event):
        self.events.append((topic, Event(type=event.type, data=copy.deepcopy(event.data))))

    async def is_reachable(self, worker):
        return worker.name not in self.cut

    # -- the loop ------------------------------------------------------------------------------------------------

    def at(self, when, order, action, *about):
        heapq.heappush(self.due, (when, order, self.number, action, about))
        self.number += 1

    async def run(self):
        self.real_find = S.find_candidate
        S.find_candidate = self.find_candidate
        try:
            for when, action, *about in self.case["events"]:
                self.at(when, 0, getattr(self, action), *about)
            for period, order, action in ((SYNCER, 1, self.sync_workers), (POLL, 2, self.poll), (SCAN, 3, self.scan)):
                for when in range(period, self.case["until"] + 1, period):
                    self.at(when, order, action)
            while self.due and self.due[0][0] <= self.case["until"]:
                when, _, _, action, about = heapq.heappop(self.due)
                clock.now_ms = when
                await action(*about)
                await self.settle()
            if self.busy:
                self.busy.cancel()
        finally:
            S.find_candidate = self.real_find

    async def settle(self):
        """Controllers, a scan if an instance was created, the consumer: until nothing is left to do now."""
        while True:
            created = await self.read_events()
            if created:
                await self.scan()
            elif not await self.take_next():
                return

    async def read_events(self):
        created = False
        while self.events:
            topic, event = self.events.pop(0)
            if topic == "worker" and event.type in (EventType.UPDATED, EventType.DELETED):
                name = event.data.name
                try:
                    await self.worker_controller._reconcile(event)
                    result = "done"
                except Exception as error:  # upstream logs it and goes on
                    result = type(error).__name__
                await self.step("sync_worker", worker=name, result=result)
            elif topic == "model":
                await self.model_controller._reconcile(event)
                await self.step("sync_replicas", model=event.data.name)
            elif topic == "modelinstance" and event.type == EventType.DELETED:
                await self.instance_controller._reconcile(event)
                await self.step("sync_replicas", model=event.data.model_name)
            created |= topic == "modelinstance" and event.type == EventType.CREATED
        return created

    # -- the scheduler -------------------------------------------------------------------------------------------

    async def scan(self):
        async with AsyncSession(self.engine) as session:
            instances = await M.ModelInstance.all(session)
            wanted = [instance for instance in instances if self.scheduler._should_schedule(instance)]
            await self.step("scan", result=[instance.id for instance in wanted])
            for instance in wanted:
                await self.scheduler._evaluate(instance)
                await self.step("evaluate", row=instance.id)

    async def find_candidate(self, config, model, workers):
        """Upstream's own, which then lasts as long as the sequence says."""
        try:
            found = await self.real_find(config, model, workers)
        except Exception as error:
            found = error
        self.computing = model.name
        self.entered.set()
        await self.gate.wait()
        if isinstance(found, Exception):
            raise found
        self.placed = found[0] is not None
        return found

    async def take_next(self):
        if self.busy or self.scheduler._queue.qsize() == 0:
            return False
        item = await self.scheduler._queue.get()
        self.entered.clear()
        self.gate.clear()
        self.placed, row = None, item.id
        self.busy = asyncio.create_task(self.scheduler._schedule_one(item))
        entered = asyncio.create_task(self.entered.wait())
        await asyncio.wait({self.busy, entered}, return_when=asyncio.FIRST_COMPLETED)
        entered.cancel()
        await self.step("begin", row=row, model=item.model_name)
        if self.busy.done():
            await self.finish(row)
        else:
            self.at(clock.now_ms + self.models[self.computing]["computes_ms"], 4, self.finish, row)
        return True

    async def finish(self, row):
        self.gate.set()
        try:
            await self.busy
            result = {None: "gone", True: "placed", False: "none"}[self.placed]
        except Exception as error:
            result = type(error).__name__
        self.busy = None
        await self.step("end", row=row, result=result)

    # -- what users and workers do -------------------------------------------------------------------------------

    async def create(self, name):
        async with AsyncSession(self.engine) as session:
            model = plant.model(self.models[name])
            session.add(model)
            await session.commit()
            await session.refresh(model)
            await M.Model._publish_event(EventType.CREATED, model)
        await self.step("create", model=name)

    async def scale(self, name, replicas):
        async with AsyncSession(self.engine) as session:
            model = await M.Model.one_by_field(session, "name", name)
            model.replicas = replicas
            await services.ModelService(session).update(model)
        await self.step("scale" if replicas else "stop", model=name, replicas=replicas)

    async def cut_off(self, name):
        """As `silence`, and probes are not answered either."""
        self.cut.add(name)
        await self.silence(name)

    async def silence(self, name):
        last = max(clock.now_ms // HEARTBEAT * HEARTBEAT, self.came_back.get(name, 0))
        self.silent[name] = last
        await self.beat()
        await self.step("cut_off" if name in self.cut else "silent", worker=name, last_ms=last)

    async def back(self, name):
        """The worker sends its status, as the API stores it."""
        self.silent.pop(name)
        self.cut.discard(name)
        self.came_back[name] = clock.now_ms
        async with AsyncSession(self.engine) as session:
            worker = await W.Worker.one_by_field(session, "name", name)
            # What a worker sends has no message of an earlier state.
            worker.heartbeat_time, worker.unreachable, worker.state_message = clock.now(), False, None
            worker.compute_state()
            await services.WorkerService(session).update(worker)
        await self.step("back", worker=name)

    async def beat(self):
        """The heartbeats of all that are heard, up to now."""
        async with AsyncSession(self.engine) as session:
            for worker in await W.Worker.all(session):
                last = self.silent.get(worker.name, clock.now_ms // HEARTBEAT * HEARTBEAT)
                last = clock.START + clock.real.timedelta(milliseconds=last)
                if worker.heartbeat_time < last:
                    worker.heartbeat_time = last
                    session.add(worker)
            await session.commit()

    async def sync_workers(self):
        await self.beat()
        await self.syncer._sync_workers_connectivity()
        if self.events:
            await self.step("syncer")

    async def report(self, row, worker, state):
        """A worker tells what became of an instance that it still has, unless it cannot be heard."""
        async with AsyncSession(self.engine) as session:
            instance = await M.ModelInstance.one_by_id(session, row)
            if instance is None or instance.worker_name != worker or worker in self.silent:
                return
            if instance.state.value not in {"initializing": ["scheduled"], "running": ["initializing"], "error": ["initializing", "running"]}[state]:
                return
            instance.state = M.ModelInstanceStateEnum(state)
            await services.ModelInstanceService(session).update(instance)
        await self.step("report", row=row, state=state)

    async def poll(self):
        """Each worker that can be heard looks for its instances in error, with upstream's own serve manager."""
        async with AsyncSession(self.engine) as session:
            instances = await M.ModelInstance.all(session)
        for instance in instances:
            if instance.state.value != "error" or instance.worker_name is None or instance.worker_name in self.silent:
                continue
            manager = object.__new__(serve_manager.ServeManager)
            manager._serving_model_instances, manager._error_model_instances = {}, {}
            patches = []
            manager._update_model_instance = lambda _, **patch: patches.append(patch)
            manager._restart_error_instance(instance)
            for patch in patches:
                async with AsyncSession(self.engine) as session:
                    kept = await M.ModelInstance.one_by_id(session, instance.id)
                    await services.ModelInstanceService(session).update(kept, patch)
                await self.step("restart", row=instance.id)

    # -- what is written down ------------------------------------------------------------------------------------

    async def step(self, call, **about):
        async with AsyncSession(self.engine) as session:
            rows = sorted(await M.ModelInstance.all(session), key=lambda row: row.id)
            workers = await W.Worker.all(session)
        said = [
            {"id": row.id, "model": row.model_name, "state": row.state.value, "worker": row.worker_name, "gpus": row.gpu_indexes or []}
            for row in rows
        ]
        self.steps.append(
            {"at_ms": clock.now_ms, "call": call, **about, "rows": said,
             "queue": [item.id for item in self.scheduler._queue.queue._queue],
             "workers": {worker.name: worker.state.value for worker in workers if worker.state.value != "ready"}}
        )
        for row in rows:
            before, after = self.seen.get(row.id), (row.state.value, row.worker_name, row.model_name)
            self.seen[row.id] = after
            if before != after and row.state.value == "scheduled":
                self.follow(row)

    def follow(self, row):
        """What its worker will say of a newly scheduled instance."""
        spec = self.models[row.model_name]
        for after, state in spec["course"]:
            self.at(clock.now_ms + after, 0, self.report, row.id, row.worker_name, state)

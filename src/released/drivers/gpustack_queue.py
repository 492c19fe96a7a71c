"""GPUStack's own queue, in virtual time: its scan (`_enqueue_pending_instances`) and its one consumer
(`_schedule_cycle`), which computes for each instance as long as the scenario says (`driver: {analysis_seconds: 30}`).

What is computed, for whom and in which order is the program's. A computation goes on while the world changes, as it
does on a server: an instance may be gone when its result is there.
"""

import asyncio
from datetime import datetime, timedelta, timezone

from gpustack.scheduler import scheduler
from gpustack.schemas import models
from sqlalchemy import event
from sqlalchemy.orm.attributes import set_attribute

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
SETTLED = 20  # turns of the loop without work; between two of them the consumer takes the next entry


class Clock(datetime):
    """The clock of the scheduler and of the rows of instances."""

    at = BEGIN

    @classmethod
    def now(cls, tz=None):
        return Clock.at.astimezone(tz) if tz else Clock.at.replace(tzinfo=None)


def stamped(_mapper, _connection, row):
    now = Clock.at.replace(tzinfo=None)
    set_attribute(row, "updated_at", now)
    if row.created_at is None:
        set_attribute(row, "created_at", now)


class Queue:
    def __init__(self, driver, seconds):
        self.driver, self.length = driver, timedelta(seconds=seconds)
        self.consumer, self.busy, self.until, self.resumed = None, False, None, None
        scheduler.datetime = Clock
        for name in ("before_insert", "before_update"):
            event.listen(models.ModelInstance, name, stamped)
        stands = driver.stand_ins
        stands.state("clock", "scheduler.datetime, times of rows", "the virtual time")
        stands.state("analysis", "how long scheduler.find_candidate takes", "driver.analysis_seconds")

    async def begin(self):
        """A scheduler as after the start of the server."""
        if self.consumer is not None:
            self.consumer.cancel()
            await asyncio.gather(self.consumer, return_exceptions=True)
        Clock.at, self.busy, self.until, self.resumed = BEGIN, False, None, None
        program = self.driver.scheduler = scheduler.Scheduler(self.driver.config)
        self.every = timedelta(seconds=program._check_interval)
        self.scanned = BEGIN
        schedule_one = program._schedule_one

        async def watched(instance, *args, **kwargs):
            self.busy = True
            await self.driver._begin()
            try:
                return await schedule_one(instance, *args, **kwargs)
            finally:
                self.busy = False
                await self.driver.scheduled(instance)

        program._schedule_one = watched
        self.consumer = asyncio.ensure_future(program._schedule_cycle())

    async def compute(self):
        """Called when a computation has its result: it is there only when its time is over."""
        self.driver.stand_ins.hit("analysis")
        self.until, self.resumed = Clock.at + self.length, asyncio.get_running_loop().create_future()
        await self.resumed

    async def step(self, now, is_fresh):
        """Lets the program work up to `now`. Returns when it has something to do by itself, in nanoseconds."""
        target = BEGIN + timedelta(microseconds=now // 1000)
        if self.consumer is None:
            await self.begin()
        # What is due before `now` was asked for at its own time; a later question is about `now` alone.
        Clock.at = target
        if self.until is not None and self.until <= target:
            self.resumed.set_result(None)
            self.until = self.resumed = None
            await self.settle()
        if is_fresh or self.scanned + self.every <= target:
            if not is_fresh:
                self.scanned = target
            await self.driver.scheduler._enqueue_pending_instances()
        await self.settle()
        due = min([self.scanned + self.every, *([self.until] if self.until else [])])
        return int((due - BEGIN) / timedelta(microseconds=1)) * 1000

    async def settle(self):
        """Until the consumer computes, or waits for an entry."""
        quiet = 0
        while quiet < SETTLED:
            is_idle = not self.busy and self.driver.scheduler._queue.qsize() == 0
            quiet = quiet + 1 if self.until is not None or is_idle else 0
            await asyncio.sleep(0 if quiet else 0.0005)

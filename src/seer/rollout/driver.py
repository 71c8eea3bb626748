"""The asyncio driver: feeds the controller from real engines and carries out its actions.

One event loop, no locks: an event is handled, recorded and its actions begun in one go. Actions on
an instance are begun in the order given; one that must wait for pool slots holds back those behind
it on the same instance. Tokens that a chunk reports are kept at once, but the controller hears of
them only when the chunk ends or its instance is lost: about one event a chunk.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from seer.errors import InstanceLost, SeerError
from seer.rollout.controller import Controller
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.engine import Engine
from seer.rollout.events import (
    AbortChunk,
    Action,
    ChunkFinished,
    DropObject,
    Event,
    ExportObject,
    FinishGroup,
    FinishRequest,
    InstanceJoined,
    InstanceLeft,
    KVExported,
    KVSpilled,
    SpillObject,
    StartChunk,
    TokensStreamed,
)
from seer.rollout.fleet import Fleet, Placed
from seer.rollout.site import Site
from seer.rollout.token_store import TokenStore
from seer.rollout.trace import TraceRecord
from seer.rollout.transfers import Transfers, places, spill_places
from seer.types import Chunk, ChunkProgress, ChunkResult, DropKV, ExportKV, RequestId

OnRecord = Callable[[TraceRecord], None]
GATHER_S = 0.001
"""How long ended chunks are gathered: those of one step arrive within it, and the instance is in
its next step for much longer."""

InstanceAction = StartChunk | AbortChunk | ExportObject | DropObject


@dataclass(frozen=True, slots=True)
class _Held:
    """An action for an instance, from when it was decided until it is begun."""

    action: InstanceAction
    waits: list[asyncio.Future[None]]
    """Operations on its slots that were decided earlier."""
    done: asyncio.Future[None] | None
    """What later users of its slots wait for, if it writes any."""


class Driver:
    """Runs a controller over a fleet, with the tasks of a group that outlives it."""

    def __init__(
        self,
        config: ControllerConfig,
        fleet: Fleet,
        site: Site,
        tasks: asyncio.TaskGroup,
        *,
        restart_instances: bool,
        on_record: OnRecord,
        on_failure: Callable[[SeerError], None],
    ) -> None:
        self.store = TokenStore()
        self._controller = Controller(config)
        self._fleet = fleet
        self._site = site
        self._tasks = tasks
        self._restart_instances = restart_instances
        self._on_record = on_record
        self._on_failure = on_failure
        self._transfers = Transfers()
        self._held_back: dict[int, deque[_Held]] = {i: deque() for i in fleet.placed}
        self._ended_chunks: list[ChunkFinished] = []
        self._num_restarting = 0
        self._relaunches: set[asyncio.Task[bool]] = set()
        self._is_shut_down = False
        self._origin = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since the driver was made."""
        return time.monotonic() - self._origin

    def start(self) -> None:
        """Tell the controller of every launched instance."""
        for instance_id, placed in self._fleet.placed.items():
            if placed.engine is not None:
                self.handle(InstanceJoined(instance_id=instance_id, info=placed.engine.info))

    def join(self, instance_id: int) -> None:
        """Tell the controller of an instance that was added. Raises InvalidInput if refused."""
        self._held_back[instance_id] = deque()
        engine = self._fleet.placed[instance_id].engine
        if engine is not None:
            self.handle(InstanceJoined(instance_id=instance_id, info=engine.info))

    async def remove(self, instance_id: int) -> None:
        """Let an instance go: its chunks go on elsewhere from the last reported token."""
        placed = self._fleet.placed[instance_id]
        engine = placed.engine
        if engine is not None:
            self._leave(placed, on_purpose=True)
        del self._fleet.placed[instance_id]
        if engine is not None:
            await engine.close()

    def shut_down(self) -> None:
        """Begin nothing more; what is lost is not restarted, nor waited for where it was to be."""
        self._is_shut_down = True
        for relaunch in self._relaunches:
            relaunch.cancel()

    def notice_loss(self, instance_id: int) -> None:
        """An instance has turned out to be gone: tell the controller, then restart it."""
        placed = self._fleet.placed[instance_id]
        if placed.engine is not None:
            self._tasks.create_task(self._lost(placed, placed.engine))

    def handle(self, event: Event) -> None:
        """Take an event: decide, record, begin the actions. Raises InvalidInput from submits."""
        if self._is_shut_down:
            return
        now = self.now
        actions = self._controller.handle(event, now)
        for action in actions:
            if isinstance(action, FinishRequest):
                self.store.finish(action.request_id, action.reason, now)
        self._on_record(TraceRecord(t=now, event=event, actions=actions))
        for action in actions:
            self._begin(action)

    # ------------------------------------------------------------------ actions

    def _begin(self, action: Action) -> None:
        match action:
            case SpillObject():
                waits = self._transfers.pending(spill_places(action))
                done = self._transfers.occupy(spill_places(action))
                self._tasks.create_task(self._spill(action, waits, done))
            case StartChunk() | AbortChunk() | ExportObject() | DropObject():
                queue = self._held_back[action.instance_id]
                queue.append(self._hold(action))
                if len(queue) == 1:
                    self._begin_held_back(action.instance_id)
            case FinishRequest() | FinishGroup():
                pass  # whoever reads the records hands results over

    def _hold(self, action: InstanceAction) -> _Held:
        match action:
            case ExportObject(slots=slots, tier=tier):
                waits = self._transfers.pending(places(tier, slots))
                return _Held(action, waits, self._transfers.occupy(places(tier, slots)))
            case StartChunk(loads=loads):
                read = [place for entry in loads for place in places(entry.tier, entry.slots)]
                return _Held(action, self._transfers.pending(read), None)
            case _:
                return _Held(action, [], None)

    def _begin_held_back(self, instance_id: int) -> None:
        """Begin an instance's actions in order, up to the first that must wait for slots."""
        queue = self._held_back[instance_id]
        while queue:
            waits = [wait for wait in queue[0].waits if not wait.done()]
            if waits:
                self._tasks.create_task(self._resume_after(waits, instance_id))
                return
            placed = self._fleet.placed[instance_id]
            held = queue.popleft()
            if placed.engine is not None:
                self._call(held, placed, placed.engine)
            else:
                _resolve(held.done)

    async def _resume_after(self, waits: list[asyncio.Future[None]], instance_id: int) -> None:
        await asyncio.wait(waits)
        self._begin_held_back(instance_id)

    def _call(self, held: _Held, placed: Placed, engine: Engine) -> None:
        action = held.action
        match action:
            case StartChunk():
                # At once, not in the task: the instance may be lost before a task begins.
                placed.in_flight.add(action.request_id)
                chunk = self.store.begin(action, self._fleet.weight_version, self.now)
                work: Coroutine[Any, Any, None] = self._run(chunk, placed, engine)
            case AbortChunk():
                work = self._guard(engine.abort(action.request_id), placed, engine)
            case ExportObject():
                work = self._export(action, held.done, placed, engine)
            case DropObject():
                work = self._guard(engine.move_kv(DropKV(key=action.key)), placed, engine)
        self._tasks.create_task(work)

    async def _run(self, chunk: Chunk, placed: Placed, engine: Engine) -> None:
        try:
            result = await engine.run(chunk, partial(self._progress, placed, engine))
        except InstanceLost:
            await self._lost(placed, engine)
        except SeerError as error:
            self._on_failure(error)
        else:
            if placed.engine is engine:
                self._ended(result, placed)

    async def _export(
        self,
        action: ExportObject,
        done: asyncio.Future[None] | None,
        placed: Placed,
        engine: Engine,
    ) -> None:
        ok, num_bytes = False, 0
        try:
            export = ExportKV(key=action.key, slots=action.slots, tier=action.tier)
            moved = await engine.move_kv(export)
            ok, num_bytes = moved.ok, moved.num_bytes
        except InstanceLost:
            await self._lost(placed, engine)
        finally:
            _resolve(done)
        self._exported(action, ok=ok, num_bytes=num_bytes)

    def _exported(self, action: ExportObject, *, ok: bool, num_bytes: int) -> None:
        self.handle(
            KVExported(instance_id=action.instance_id, key=action.key, ok=ok, num_bytes=num_bytes)
        )

    async def _spill(
        self, action: SpillObject, waits: list[asyncio.Future[None]], done: asyncio.Future[None]
    ) -> None:
        if waits:
            await asyncio.wait(waits)
        try:
            spilled = await asyncio.to_thread(
                self._site.spill, action.host_slots, action.disk_slots
            )
        finally:
            _resolve(done)
        self.handle(KVSpilled(key=action.key, ok=spilled.ok, num_bytes=spilled.num_bytes))

    # ------------------------------------------------------------------ reports

    def _progress(self, placed: Placed, engine: Engine, progress: ChunkProgress) -> None:
        if placed.engine is engine:
            self.store.stream(progress)

    def _ended(self, result: ChunkResult, placed: Placed) -> None:
        placed.in_flight.discard(result.request_id)
        placed.load = result.load
        placed.num_failures = 0
        if self.store.end(result):
            self._ended_chunks.append(
                ChunkFinished(
                    request_id=result.request_id,
                    chunk_index=result.chunk_index,
                    instance_id=placed.setup.instance_id,
                    num_tokens=len(result.token_ids),
                    end=result.end,
                    stats=result.stats,
                    load=result.load,
                )
            )
            if len(self._ended_chunks) == 1:
                asyncio.get_running_loop().call_later(GATHER_S, self._report_ended)

    def _report_ended(self) -> None:
        """Hand over the chunks that ended together; requests are placed after the last."""
        ended, self._ended_chunks = self._ended_chunks, []
        for i, event in enumerate(ended, start=1):
            more = i < len(ended)
            self.handle(msgspec.structs.replace(event, more=more) if more else event)

    async def _guard(
        self, call: Coroutine[Any, Any, object], placed: Placed, engine: Engine
    ) -> None:
        """Make a call whose only failure of interest is the loss of the instance."""
        try:
            await call
        except InstanceLost:
            await self._lost(placed, engine)

    async def _lost(self, placed: Placed, engine: Engine) -> None:
        """The engine is gone (many callers notice): tell the controller once, then restart it."""
        if placed.engine is not engine or self._is_shut_down:
            return
        instance_id = placed.setup.instance_id
        self._num_restarting += self._restart_instances
        self._leave(placed, on_purpose=False)
        await engine.close()
        if self._restart_instances:
            is_back = await self._relaunch(instance_id)
            self._num_restarting -= 1
            if is_back and placed.engine is not None:
                self.handle(InstanceJoined(instance_id=instance_id, info=placed.engine.info))
        if self._fleet.num_alive + self._num_restarting == 0:
            self._on_failure(InstanceLost(instance_id, "and no instance is left"))

    async def _relaunch(self, instance_id: int) -> bool:
        """Start it again; cancelled with whoever waits when the driver is shut down."""
        relaunch = self._tasks.create_task(self._fleet.relaunch(instance_id))
        self._relaunches.add(relaunch)
        relaunch.add_done_callback(self._relaunches.discard)
        return await relaunch

    def _leave(self, placed: Placed, *, on_purpose: bool) -> None:
        """Keep what an instance's chunks have reported, and tell the controller that it is gone."""
        instance_id = placed.setup.instance_id
        flying = sorted(placed.in_flight)
        self._report_ended()
        self._fleet.lose(instance_id)
        self._drop_held_back(instance_id)
        for request_id in flying:
            self._keep_streamed(request_id)
        self.handle(InstanceLeft(instance_id=instance_id, on_purpose=on_purpose))

    def _drop_held_back(self, instance_id: int) -> None:
        """What was not begun on a lost instance never is; nobody must wait for it."""
        queue = self._held_back[instance_id]
        dropped = list(queue)
        queue.clear()
        for held in dropped:
            _resolve(held.done)
            if isinstance(held.action, ExportObject):
                self._exported(held.action, ok=False, num_bytes=0)

    def _keep_streamed(self, request_id: RequestId) -> None:
        """Tell the controller what a lost chunk had reported; these tokens stay."""
        lost = self.store.lose(request_id)
        if lost.num_tokens:
            self.handle(
                TokensStreamed(
                    request_id=request_id,
                    chunk_index=lost.chunk_index,
                    num_tokens=lost.num_tokens,
                )
            )


def _resolve(done: asyncio.Future[None] | None) -> None:
    if done is not None and not done.done():
        done.set_result(None)

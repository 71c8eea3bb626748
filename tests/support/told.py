"""A controller to talk to, and short words for events and actions."""

from seer.rollout.controller import Controller
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import (
    Action,
    ChunkFinished,
    DropObject,
    FinishRequest,
    GroupCancelled,
    GroupsSubmitted,
    InstanceJoined,
    InstanceLeft,
    KVExported,
    StartChunk,
    TokensStreamed,
)
from seer.scheduling.placement import PlacementConfig
from seer.types import (
    ChunkEnd,
    ChunkStats,
    EngineInfo,
    FinishReason,
    GroupSpec,
    InstanceLoad,
    KVKey,
    PoolEntry,
    RequestId,
    Tier,
)
from support.model_instance import make_info

BLOCK = 4
LOAD = InstanceLoad(free_kv_tokens=0, num_running=0, num_waiting=0)
PULLING = PlacementConfig(max_spread=0, pull_gap_tokens=0)
R00, R01, R10, R20 = RequestId(0, 0), RequestId(0, 1), RequestId(1, 0), RequestId(2, 0)
PROMPT_1 = PoolEntry(key=KVKey(1), tier=Tier.HOST, slots=(1, 2), num_tokens=8)
OWN_10 = PoolEntry(key=KVKey(1, 0), tier=Tier.HOST, slots=(0,), num_tokens=12)


class Told:
    """A controller, and what it has asked for of late."""

    def __init__(
        self,
        *,
        num_instances: int = 1,
        num_blocks: int = 100,
        max_running: int = 8,
        policy: str = "divided",
        chunk_size: int | None = 4,
        placement: PlacementConfig | None = None,
        num_host_slots: int = 0,
        num_disk_slots: int = 0,
    ) -> None:
        config = ControllerConfig(
            policy=policy,
            chunk_size=chunk_size,
            placement=placement or PlacementConfig(),
            num_host_slots=num_host_slots,
            num_disk_slots=num_disk_slots,
        )
        self.controller = Controller(config)
        self.info = make_info(num_blocks, block_size=BLOCK, max_running=max_running)
        for instance_id in range(num_instances):
            self.join(instance_id)

    def join(self, instance_id: int, info: EngineInfo | None = None) -> list[Action]:
        event = InstanceJoined(instance_id=instance_id, info=info or self.info)
        return self.controller.handle(event, 0.0)

    def submit(
        self, *sizes: int, first: int = 0, prompt: int = 9, max_tokens: int = 12
    ) -> list[Action]:
        """Groups of these sizes, numbered from `first`."""
        groups = tuple(
            GroupSpec(
                group_id=first + i,
                group_size=size,
                num_prompt_tokens=prompt,
                max_tokens=max_tokens,
            )
            for i, size in enumerate(sizes)
        )
        return self.controller.handle(GroupsSubmitted(groups=groups), 0.0)

    def end(
        self,
        request_id: RequestId,
        chunk_index: int = 0,
        num_tokens: int = 4,
        end: ChunkEnd = ChunkEnd.LENGTH,
        *,
        instance_id: int = 0,
        stats: ChunkStats | None = None,
        more: bool = False,
    ) -> list[Action]:
        event = ChunkFinished(
            request_id=request_id,
            chunk_index=chunk_index,
            instance_id=instance_id,
            num_tokens=num_tokens,
            end=end,
            stats=stats or ChunkStats(),
            load=LOAD,
            more=more,
        )
        actions = self.controller.handle(event, 0.0)
        self.controller.check_integrity()
        return actions

    def stream(self, request_id: RequestId, num_tokens: int, chunk_index: int = 0) -> list[Action]:
        event = TokensStreamed(
            request_id=request_id, chunk_index=chunk_index, num_tokens=num_tokens
        )
        return self.controller.handle(event, 0.0)

    def exported(self, key: KVKey, *, is_ok: bool = True) -> None:
        event = KVExported(instance_id=0, key=key, ok=is_ok, num_bytes=1)
        assert self.controller.handle(event, 0.0) == []

    def in_pool(self, key: KVKey) -> bool:
        return self.controller._kv._pool.find(key) is not None

    def lose(self, instance_id: int) -> list[Action]:
        actions = self.controller.handle(InstanceLeft(instance_id=instance_id), 0.0)
        self.controller.check_integrity()
        return actions

    def cancel(self, group_id: int) -> list[Action]:
        actions = self.controller.handle(GroupCancelled(group_id=group_id), 0.0)
        self.controller.check_integrity()
        return actions


def start(
    request_id: RequestId,
    instance_id: int = 0,
    chunk_index: int = 0,
    *,
    max_tokens: int = 4,
    keep_kv: bool = True,
    loads: tuple[PoolEntry, ...] = (),
) -> StartChunk:
    return StartChunk(
        instance_id=instance_id,
        request_id=request_id,
        chunk_index=chunk_index,
        max_tokens=max_tokens,
        keep_kv=keep_kv,
        loads=loads,
    )


def finish(request_id: RequestId, reason: FinishReason = FinishReason.STOP) -> FinishRequest:
    return FinishRequest(request_id=request_id, reason=reason)


def drop(group: int, member: int | None = None, instance_id: int = 0) -> DropObject:
    return DropObject(instance_id=instance_id, key=KVKey(group, member))


def places(actions: list[Action]) -> list[tuple[RequestId, int]]:
    return [(a.request_id, a.instance_id) for a in actions if isinstance(a, StartChunk)]


def crowded(*, num_host_slots: int, num_disk_slots: int = 0) -> Told:
    """R00, R01 and R10 fill the instance: prompts of 2 blocks, 1 own block each."""
    told = Told(num_blocks=7, num_host_slots=num_host_slots, num_disk_slots=num_disk_slots)
    assert places(told.submit(2, 1)) == [(R00, 0), (R01, 0), (R10, 0)]
    return told


def displaced(*, is_ok: bool = True) -> Told:
    """R10 had to leave for the pool, its prompt too; both exports are reported."""
    told = crowded(num_host_slots=10)
    told.end(R10)
    told.end(R00)
    told.end(R01)
    told.exported(KVKey(1, 0), is_ok=is_ok)
    told.exported(KVKey(1), is_ok=is_ok)
    return told

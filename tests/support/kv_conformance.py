"""What every engine must do with KV: drop it, move it through the pool, distrust what it reads."""

import asyncio
from pathlib import Path

from seer.rollout.engine import Engine
from seer.types import (
    ChunkResult,
    DropKV,
    ExportKV,
    KVKey,
    PoolAddress,
    PoolEntry,
    Tier,
    WeightUpdate,
)
from support.subjects import PROMPT_KEY, Subject, ignore, pooled, reference, request_key, running


async def check_drop(subject: Subject) -> None:
    """A dropped object is computed again, exactly, and counted; unknown ones are ignored."""
    async with running(subject) as [engine]:
        whole, first = await _first_half(engine, subject)
        await engine.move_kv(DropKV(key=KVKey(99)))
        await engine.move_kv(DropKV(key=request_key(0)))
        rest = await _second_half(engine, subject, first)
        assert first.token_ids + rest.token_ids == whole.token_ids
        if subject.kv_objects:
            assert rest.stats.num_output_prefilled == len(first.token_ids)
            assert rest.stats.num_prompt_prefilled == 0


async def check_order_of_calls(subject: Subject) -> None:
    """A drop made before a run is done before that run, though nobody waits between them."""
    async with running(subject) as [engine]:
        await engine.run(subject.chunk(0, max_tokens=2, keep_kv=False), ignore)
        drop = asyncio.create_task(engine.move_kv(DropKV(key=PROMPT_KEY)))
        run = asyncio.create_task(engine.run(subject.chunk(1, max_tokens=2), ignore))
        await drop
        assert (await run).stats.num_prompt_prefilled == len(subject.prompt) - 1


async def check_move(subject: Subject) -> None:
    """KV exported by one instance is loaded by another: nothing is computed again."""
    async with pooled(subject, 2) as (_, [source, target]):
        whole, first = await _first_half(source, subject)
        entries = await _export(source, subject, first)
        rest = await _second_half(target, subject, first, loads=entries)
        assert first.token_ids + rest.token_ids == whole.token_ids
        assert rest.stats.num_output_prefilled == rest.stats.num_prompt_prefilled == 0
        assert rest.stats.num_load_failures == 0
        assert rest.stats.num_loaded_tokens > 0
        blocks = sum(len(entry.slots) for entry in entries)
        assert rest.stats.num_loaded_bytes == blocks * subject.info.block_bytes
        kept = await _second_half(source, subject, first)
        assert kept.token_ids == rest.token_ids
        assert kept.stats.num_output_prefilled == 0


async def check_spilled_move(subject: Subject) -> None:
    """KV that was spilled to disk is loaded from there."""
    async with pooled(subject, 2) as (owner, [source, target]):
        whole, first = await _first_half(source, subject)
        entries = await _export(source, subject, first)
        spilled = []
        for entry in entries:
            assert owner.spill(entry.slots, entry.slots).ok
            spilled.append(_on_disk(entry))
        _corrupt_host(owner.address, [slot for entry in entries for slot in entry.slots])
        rest = await _second_half(target, subject, first, loads=tuple(spilled))
        assert first.token_ids + rest.token_ids == whole.token_ids
        assert rest.stats.num_output_prefilled == rest.stats.num_prompt_prefilled == 0


async def check_corrupt_slot(subject: Subject) -> None:
    """A corrupt slot costs a re-prefill and is counted; the tokens are the same."""
    async with pooled(subject, 2) as (owner, [source, target]):
        whole, first = await _first_half(source, subject)
        prompt, request = await _export(source, subject, first)
        _corrupt_host(owner.address, [prompt.slots[0], request.slots[-1]])
        rest = await _second_half(target, subject, first, loads=(prompt, request))
        assert first.token_ids + rest.token_ids == whole.token_ids
        assert rest.stats.num_load_failures > 0
        assert rest.stats.num_prompt_prefilled > 0
        assert rest.stats.num_output_prefilled > 0


async def check_foreign_slots(subject: Subject) -> None:
    """Another member's KV is not taken for one's own."""
    async with pooled(subject, 2) as (_, [source, target]):
        whole, first = await _first_half(source, subject)
        other = await source.run(subject.chunk(1, max_tokens=len(first.token_ids)), ignore)
        _, foreign = await _export(source, subject, other, member=1)
        mislabelled = PoolEntry(
            key=request_key(0),
            tier=foreign.tier,
            slots=foreign.slots,
            num_tokens=foreign.num_tokens,
        )
        rest = await _second_half(target, subject, first, loads=(mislabelled,))
        assert first.token_ids + rest.token_ids == whole.token_ids
        assert rest.stats.num_output_prefilled > 0


async def check_old_weights_are_foreign(subject: Subject) -> None:
    """KV of old weights in the pool is never loaded."""
    async with pooled(subject, 1) as (_, [engine]):
        _, first = await _first_half(engine, subject)
        entries = await _export(engine, subject, first)
        await engine.update_weights(WeightUpdate(version=1, path=subject.weights_path))
        chunk = subject.chunk(
            0, output=first.token_ids, index=1, max_tokens=2, loads=entries, weight_version=1
        )
        result = await engine.run(chunk, ignore)
        assert result.stats.num_loaded_tokens == 0
        assert result.stats.num_load_failures > 0
        assert result.stats.num_output_prefilled == len(first.token_ids)


async def check_failed_export(subject: Subject) -> None:
    """An export of what is not there, or without a pool, says so and harms nothing."""
    async with pooled(subject, 1) as (_, [engine]):
        moved = await engine.move_kv(ExportKV(key=request_key(0), slots=(0, 1)))
        assert not moved.ok
    async with running(subject) as [engine]:
        _, first = await _first_half(engine, subject)
        slots = tuple(range(subject.prompt_blocks()))
        assert not (await engine.move_kv(ExportKV(key=PROMPT_KEY, slots=slots))).ok
        assert subject.is_resumed(await _second_half(engine, subject, first))


async def _first_half(engine: Engine, subject: Subject) -> tuple[ChunkResult, ChunkResult]:
    """The whole response of member 0, and its first half as a chunk whose KV is kept."""
    whole = await reference(engine, subject, 0, subject.num_tokens)
    half = subject.num_tokens // 2 + 1
    return whole, await engine.run(subject.chunk(0, max_tokens=half), ignore)


async def _second_half(
    engine: Engine, subject: Subject, first: ChunkResult, loads: tuple[PoolEntry, ...] = ()
) -> ChunkResult:
    chunk = subject.chunk(
        0,
        output=first.token_ids,
        index=1,
        max_tokens=subject.num_tokens - len(first.token_ids),
        loads=loads,
    )
    return await engine.run(chunk, ignore)


async def _export(
    engine: Engine, subject: Subject, result: ChunkResult, member: int = 0
) -> tuple[PoolEntry, PoolEntry]:
    """The prompt's and a request's KV in the pool, from slot 0 on."""
    num_prompt = subject.prompt_blocks()
    num_own = subject.own_blocks(len(result.token_ids))
    slots = tuple(range(num_prompt + num_own))
    prompt = await _export_one(engine, PROMPT_KEY, slots[:num_prompt])
    request = await _export_one(engine, request_key(member), slots[num_prompt:])
    assert prompt.num_tokens == len(subject.prompt) - 1
    assert request.num_tokens == len(subject.prompt) + len(result.token_ids) - 1
    return prompt, request


async def _export_one(engine: Engine, key: KVKey, slots: tuple[int, ...]) -> PoolEntry:
    moved = await engine.move_kv(ExportKV(key=key, slots=slots))
    assert moved.ok
    assert moved.key == key
    assert moved.num_bytes == len(slots) * engine.info.block_bytes
    return PoolEntry(key=key, tier=Tier.HOST, slots=slots, num_tokens=moved.num_tokens)


def _on_disk(entry: PoolEntry) -> PoolEntry:
    return PoolEntry(key=entry.key, tier=Tier.DISK, slots=entry.slots, num_tokens=entry.num_tokens)


def _corrupt_host(address: PoolAddress, slots: list[int]) -> None:
    """Flip one byte in the middle of each slot."""
    size = Path(address.host_path).stat().st_size // address.num_host_slots
    with Path(address.host_path).open("r+b") as file:
        for slot in slots:
            file.seek(slot * size + size // 2)
            byte = file.read(1)[0]
            file.seek(slot * size + size // 2)
            file.write(bytes([byte ^ 1]))


KV_CHECKS = (
    check_drop,
    check_order_of_calls,
    check_move,
    check_spilled_move,
    check_corrupt_slot,
    check_foreign_slots,
    check_old_weights_are_foreign,
    check_failed_export,
)
KV_CHECKS_OF_CACHES = (check_drop, check_failed_export)
"""Without objects there is nothing to export slot by slot, nor to drop in an order."""

"""Seer's router in this process, over scripted servers in real actors: faults and order."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("verl")

import ray

from on_verl.conftest import ROLLOUT, MakeConfig
from on_verl.fake_servers import length_of, response_of, start_servers
from seer.errors import EngineFailure, InvalidInput
from seer.trainers.verl import servers as servers_module
from seer.trainers.verl.manager import router_setup
from seer.trainers.verl.router import Router
from seer.trainers.verl.turns import Generated, Trajectory, Turn

CHUNK = 4
PARAMS = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "repetition_penalty": 1.0,
    "logprobs": True,
}
YAML = {"router_class": "seer.trainers.verl.router.SeerRouter"}

pytestmark = pytest.mark.usefixtures("local_ray")


def trajectory(uid: str, order: int) -> Trajectory:
    return Trajectory(uid=uid, order=order, step=1, is_validation=False)


def turn(uid: str, order: int, prompt: Sequence[int] = (5, 6, 0), **params: Any) -> Turn:
    return Turn(
        trajectory=trajectory(uid, order), prompt_ids=list(prompt), params={**PARAMS, **params}
    )


async def opened(make_config: MakeConfig, servers: dict[str, Any], *overrides: str) -> Router:
    router = Router(servers, YAML)
    config = make_config(f"+{ROLLOUT}.custom.seer.chunk_size={CHUNK}", *overrides)
    await router.configure(router_setup(config))
    return router


async def generate(router: Router, groups: int, size: int) -> list[Generated]:
    uids = [f"uid-{i}" for i in range(groups)]
    await router.expect(dict.fromkeys(uids, size))
    turns = [turn(uid, order, (5 + i, 0)) for i, uid in enumerate(uids) for order in range(size)]
    return await asyncio.gather(*(router.generate(one) for one in turns))


def is_whole(generated: Generated) -> bool:
    return generated.token_ids == response_of(generated.token_ids[0])


def test_a_server_that_dies_costs_its_chunks_alone(make_config: MakeConfig) -> None:
    """Its requests go on elsewhere from the last chunk; verl gets whole responses."""

    async def run() -> tuple[list[Generated], int]:
        servers = start_servers(2)
        ray.get(servers["server-0"].die_at.remote(9))
        router = await opened(make_config, servers)
        return await generate(router, groups=3, size=4), router.sessions.metrics.instances_lost

    generated, num_lost = asyncio.run(run())
    assert all(is_whole(one) for one in generated)
    assert num_lost >= 1


def test_the_rollout_ends_when_no_server_is_left(make_config: MakeConfig) -> None:
    """Every waiting trajectory is told, and none hangs."""

    async def run() -> list[Any]:
        servers = start_servers(1)
        ray.get(servers["server-0"].die_at.remote(3))
        router = await opened(make_config, servers)
        await router.expect({"uid-0": 2})
        return await asyncio.gather(
            *(router.generate(turn("uid-0", i)) for i in range(2)), return_exceptions=True
        )

    assert all(isinstance(error, Exception) for error in asyncio.run(run()))


def test_new_weights_in_the_middle_of_a_rollout_end_it(make_config: MakeConfig) -> None:
    """Answers of two versions are never mixed."""

    async def run() -> None:
        servers = start_servers(1)
        # The first eight calls are under way at once.
        ray.get(servers["server-0"].step_at.remote(12))
        await generate(await opened(make_config, servers), groups=2, size=4)

    with pytest.raises(EngineFailure, match="weights changed"):
        asyncio.run(run())


def test_the_next_rollout_takes_the_new_weights(make_config: MakeConfig) -> None:
    """Between rollouts verl may update its servers; each answer names its version."""

    async def run() -> list[int | None]:
        servers = start_servers(1)
        router = await opened(make_config, servers)
        first = await generate(router, groups=1, size=2)
        num_calls = len(ray.get(servers["server-0"].get_calls.remote()))
        ray.get(servers["server-0"].step_at.remote(num_calls + 1))
        second = await generate(router, groups=1, size=2)
        return [one.global_steps for one in (*first, *second)]

    assert asyncio.run(run()) == [0, 0, 1, 1]


def test_an_aborted_chunk_goes_on_where_it_stopped(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was generated before the abort is kept and counted."""
    monkeypatch.setattr(servers_module, "_RETRY_S", 0.0)

    async def run() -> list[Generated]:
        servers = start_servers(1)
        ray.get(servers["server-0"].abort.remote(3))
        return await generate(await opened(make_config, servers), groups=1, size=4)

    assert all(is_whole(one) for one in asyncio.run(run()))


def test_the_probe_goes_first(make_config: MakeConfig) -> None:
    """Under `context_aware`, with room for one request, one of each group runs first."""

    async def run() -> list[int]:
        servers = start_servers(1)
        overrides = (f"{ROLLOUT}.max_num_seqs=1", f"+{ROLLOUT}.custom.seer.policy=context_aware")
        router = await opened(make_config, servers, *overrides)
        generated = await generate(router, groups=3, size=2)
        assert all(is_whole(one) for one in generated)
        calls = ray.get(servers["server-0"].get_calls.remote())
        assert max(call.in_flight for call in calls) == 1
        return [call.first_token for call in calls if call.num_output == 0]

    assert len(set(asyncio.run(run())[:3])) == 3


def test_no_chunk_starts_beyond_the_servers_memory(make_config: MakeConfig) -> None:
    """With kv_tokens given, requests wait in Seer's buffer, not in a server."""

    async def run() -> int:
        servers = start_servers(1)
        router = await opened(make_config, servers, f"+{ROLLOUT}.custom.seer.kv_tokens=64")
        await generate(router, groups=2, size=4)
        calls = ray.get(servers["server-0"].get_calls.remote())
        return max(call.in_flight for call in calls)

    assert asyncio.run(run()) <= 4


def test_later_turns_of_a_trajectory_are_scheduled_alone(make_config: MakeConfig) -> None:
    """A loop asks again with its text so far; siblings that are done hold nobody up."""

    async def run() -> list[Generated]:
        router = await opened(make_config, start_servers(2))
        await router.expect({"uid-0": 2})
        first, other = await asyncio.gather(
            router.generate(turn("uid-0", 0)), router.generate(turn("uid-0", 1))
        )
        await router.leave("uid-0", 1)
        again = [5, 6, 0, *first.token_ids, 9, 0]
        second = await router.generate(turn("uid-0", 0, again))
        await router.leave("uid-0", 0)
        return [first, other, second]

    assert all(is_whole(one) for one in asyncio.run(run()))


def test_a_trajectory_that_ends_without_a_turn_holds_nobody_up(make_config: MakeConfig) -> None:
    """Its siblings are a smaller group."""

    async def run() -> Generated:
        router = await opened(make_config, start_servers(1))
        await router.expect({"uid-0": 2})
        waiting = asyncio.ensure_future(router.generate(turn("uid-0", 0)))
        await asyncio.sleep(0)
        await router.leave("uid-0", 1)
        return await waiting

    assert is_whole(asyncio.run(run()))


def test_a_limit_of_the_loop_is_kept(make_config: MakeConfig) -> None:
    """`max_tokens` of a loop bounds the turn, over all of its chunks."""

    async def run() -> Generated:
        router = await opened(make_config, start_servers(1))
        await router.expect({"uid-0": 1})
        return await router.generate(turn("uid-0", 0, max_tokens=6))

    generated = asyncio.run(run())
    assert len(generated.token_ids) == min(6, length_of(generated.token_ids[0]))


@pytest.mark.parametrize(
    ("params", "field"),
    [({"seed": 3}, "seed"), ({"n": 2}, "n"), ({"presence_penalty": 0.5}, "presence_penalty")],
)
def test_sampling_that_cannot_be_divided_is_refused(
    make_config: MakeConfig, params: dict[str, Any], field: str
) -> None:
    """It would mean something else in each chunk."""

    async def run() -> None:
        router = await opened(make_config, start_servers(1))
        await router.expect({"uid-0": 1})
        await router.generate(turn("uid-0", 0, **params))

    with pytest.raises(InvalidInput, match=field):
        asyncio.run(run())


def test_settings_in_the_routers_file_are_refused() -> None:
    """They go under rollout.custom.seer."""
    with pytest.raises(InvalidInput, match="router_config_path"):
        Router({}, {**YAML, "chunk_size": 3})

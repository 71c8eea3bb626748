"""Seer's manager, workers and router under verl's batches, over scripted servers in real actors."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("verl")

import ray

from on_verl.batches import make_batch, make_manager, responses
from on_verl.conftest import ROLLOUT, SEER_KEYS, MakeConfig
from on_verl.fake_servers import Call, response_of, start_servers
from seer.errors import InvalidInput

CHUNK = 8
CONTENTS = ("one", "two", "three", "four")


@dataclass(frozen=True)
class Stage:
    """A manager over servers."""

    manager: Any
    servers: dict[str, Any]

    def calls(self) -> dict[str, list[Call]]:
        return {name: ray.get(s.get_calls.remote()) for name, s in self.servers.items()}


@pytest.fixture(scope="module")
def seer(local_ray: None, make_config: MakeConfig) -> Stage:
    del local_ray
    servers = start_servers(2)
    settings = (f"+{ROLLOUT}.custom.seer.chunk_size={CHUNK}", f"{ROLLOUT}.agent.num_workers=2")
    config = make_config(*SEER_KEYS, *settings)
    return Stage(make_manager(config, servers), servers)


@pytest.fixture(scope="module")
def stock(local_ray: None, make_config: MakeConfig) -> Stage:
    del local_ray
    servers = start_servers(2)
    return Stage(make_manager(make_config(), servers), servers)


def test_the_output_has_the_shape_of_verls_own(seer: Stage, stock: Stage) -> None:
    """The same keys, shapes, types and fields as from verl's manager over the same servers."""
    ours = seer.manager.generate_sequences(make_batch(CONTENTS, 4))
    theirs = stock.manager.generate_sequences(make_batch(CONTENTS, 4))
    assert set(ours.batch.keys()) == set(theirs.batch.keys())
    for key in ours.batch.keys():  # noqa: SIM118 - not a mapping
        assert ours.batch[key].shape == theirs.batch[key].shape
        assert ours.batch[key].dtype == theirs.batch[key].dtype
    assert set(ours.non_tensor_batch) - {"num_cached_tokens"} == set(theirs.non_tensor_batch)
    assert set(ours.meta_info) == set(theirs.meta_info)
    assert set(ours.meta_info["timing"]) == set(theirs.meta_info["timing"])


def test_responses_are_whole_and_in_their_rows(seer: Stage) -> None:
    """Each row has a response that a server scripted, its log-probabilities, and its own prompt."""
    output = seer.manager.generate_sequences(make_batch(CONTENTS, 4))
    for tokens in responses(output):
        assert tokens == response_of(tokens[0])
    logprobs = output.batch["rollout_log_probs"]
    for row, tokens in zip(logprobs, responses(output), strict=True):
        assert row[: len(tokens)].tolist() == pytest.approx([-0.01 * i for i in range(len(tokens))])
    assert list(output.non_tensor_batch["uid"]) == [f"uid-{i}" for i in range(4) for _ in range(4)]
    assert set(output.non_tensor_batch["max_global_steps"]) == {0}


def test_a_chunk_is_one_call_and_stays_where_its_kv_is(seer: Stage) -> None:
    """No call asks for more than a chunk, and all calls of a response go to one server."""
    before = {name: len(calls) for name, calls in seer.calls().items()}
    output = seer.manager.generate_sequences(make_batch(CONTENTS, 4))
    new = {name: calls[before[name] :] for name, calls in seer.calls().items()}
    assert all(call.max_tokens <= CHUNK for calls in new.values() for call in calls)
    per_response = Counter(call.code for calls in new.values() for call in calls)
    for tokens in responses(output):  # one more where a chunk ends early, with a KV block
        assert 0 <= per_response[tokens[0]] - -(-len(tokens) // CHUNK) <= 1
    homes = {call.code: name for name, calls in new.items() for call in calls}
    for name, calls in new.items():
        assert {homes[call.code] for call in calls} <= {name}
    assert all(new.values()), "both servers work"


def test_another_group_size_than_rollout_n_is_refused(seer: Stage) -> None:
    """The rows of each prompt must be rollout.n, in a validation val_kwargs.n."""
    with pytest.raises(InvalidInput, match=r"rollout\.n"):
        seer.manager.generate_sequences(make_batch(CONTENTS, 3))
    with pytest.raises(InvalidInput, match=r"rollout\.val_kwargs\.n"):
        seer.manager.generate_sequences(make_batch(CONTENTS, 4, validate=True))


def test_validation_batches_are_groups_of_their_own_size(seer: Stage) -> None:
    """val_kwargs.n is one by default."""
    output = seer.manager.generate_sequences(make_batch(CONTENTS, 1, validate=True))
    assert len(responses(output)) == 4


def test_a_batch_without_uids_is_refused(seer: Stage) -> None:
    """Groups are told by uid alone."""
    batch = make_batch(CONTENTS, 4)
    del batch.non_tensor_batch["uid"]
    with pytest.raises(InvalidInput, match="uid"):
        seer.manager.generate_sequences(batch)


def test_the_manager_needs_seers_router(local_ray: None, make_config: MakeConfig) -> None:
    """With verl's own router it says which key is missing."""
    del local_ray
    with pytest.raises(InvalidInput, match="router_config_path"):
        make_manager(make_config(SEER_KEYS[0]), start_servers(1))


def test_the_router_needs_seers_manager(local_ray: None, make_config: MakeConfig) -> None:
    """Verl's own manager over Seer's router ends with the key that is missing."""
    del local_ray
    manager = make_manager(
        make_config(SEER_KEYS[1], f"{ROLLOUT}.agent.num_workers=1"), start_servers(1)
    )
    with pytest.raises(Exception, match="agent_loop_manager_class"):
        manager.generate_sequences(make_batch(CONTENTS, 1))

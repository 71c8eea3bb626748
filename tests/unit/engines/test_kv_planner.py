"""Which blocks a vLLM instance reads from the pool and writes to it; no vLLM is needed."""

from collections.abc import Iterator

import pytest

from seer.engines.vllm.kv_connector.planner import Copy, CopyPlanner
from seer.engines.vllm.kv_connector.settings import (
    pool_address,
    pool_arguments,
    transfer_arguments,
)
from seer.engines.vllm.spec import VllmSpec
from seer.errors import InvalidInput
from seer.kvpool.hashed_pool import HashedPool
from seer.kvpool.keys import chain_keys
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.types import PoolAddress

BLOCK = 4
TOKENS = list(range(100, 114))
SALT = "w0"
KEYS = chain_keys(TOKENS[:12], BLOCK, b"model/w0")


@pytest.fixture
def address() -> Iterator[PoolAddress]:
    owner = PoolOwner.create(PoolConfig(host_bytes=1 << 16), 100)
    yield owner.address
    owner.close()


def _planner(address: PoolAddress, fingerprint: bytes = b"model") -> CopyPlanner:
    return CopyPlanner(HashedPool.open(address), BLOCK, fingerprint)


def _fill(address: PoolAddress, keys: list[bytes]) -> None:
    HashedPool.open(address).write(keys, iter([bytes(100)] * len(keys)))


def test_a_request_takes_what_lies_behind_the_prefix_cache(address: PoolAddress) -> None:
    """Whole blocks, and never the last token."""
    _fill(address, KEYS)
    planner = _planner(address)
    assert planner.match("a", TOKENS, SALT, 4) == 8
    planner.load("a", [7, 8, 9, 10], 8)
    assert planner.take_step().loads == {"a": Copy([8, 9], KEYS[1:3])}
    assert not planner.take_step().loads
    assert planner.match("a", TOKENS[:12], SALT, 0) == 8


def test_other_weights_and_models_match_nothing(address: PoolAddress) -> None:
    """The weight version salts the keys, and so does what the bytes depend on."""
    _fill(address, KEYS)
    assert _planner(address).match("a", TOKENS, "w1", 0) == 0
    assert _planner(address, b"other").match("a", TOKENS, SALT, 0) == 0


def test_what_vllm_does_not_take_is_not_loaded(address: PoolAddress) -> None:
    """An allocation without external tokens forgets the match."""
    _fill(address, KEYS)
    planner = _planner(address)
    planner.match("a", TOKENS, SALT, 0)
    planner.load("a", [1, 2, 3, 4], 0)
    assert not planner.take_step().loads


def test_the_end_of_a_chunk_saves_what_the_pool_lacks(address: PoolAddress) -> None:
    """KV behind the text (of guesses) and the partial block stay out; others wait for the rest."""
    _fill(address, KEYS[:1])
    planner = _planner(address)
    assert planner.finish("a", TOKENS, SALT, [5, 6, 7, 8], 16)
    assert planner.take_step().saves == {"a": Copy([6, 7], KEYS[1:3])}
    assert _planner(address).match("b", TOKENS, SALT, 0) is None


def test_nothing_to_save_frees_the_blocks_at_once(address: PoolAddress) -> None:
    """Also where a request was cut before it computed anything."""
    _fill(address, KEYS)
    planner = _planner(address)
    assert not planner.finish("a", TOKENS, SALT, [5, 6, 7, 8], 14)
    assert not planner.finish("b", TOKENS, SALT, [], 0)


def test_the_pool_travels_in_vllms_configuration(address: PoolAddress) -> None:
    """Every process of an instance opens the same pool; without slots there is no connector."""
    spec = VllmSpec(model="m")
    config = pool_arguments(spec, address)["kv_transfer_config"]
    assert pool_address(config["kv_connector_extra_config"]) == address
    none = PoolAddress(
        host_path="", num_host_slots=0, disk_path="", num_disk_slots=0, payload_bytes=1
    )
    assert transfer_arguments(spec, none) == transfer_arguments(spec, None) == {}


def test_vllms_own_mooncake_connector_is_for_cuda() -> None:
    """It saves blocks of generated tokens, too."""
    spec = VllmSpec(model="m", device="cuda", kv_connector="mooncake_store")
    config = transfer_arguments(spec, None)["kv_transfer_config"]
    assert config["kv_connector"] == "MooncakeStoreConnector"
    assert config["kv_connector_extra_config"]["save_decode_cache"] is True
    with pytest.raises(InvalidInput, match="kv_connector"):
        VllmSpec(model="m", kv_connector="mooncake_store")

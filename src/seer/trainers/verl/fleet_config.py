"""The rollout over verl's servers, of either kind."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.engine import Engine, InstanceSetup, Tokenizer
from seer.scheduling.placement import PlacementConfig
from seer.trainers.borrowed.engine import OneVersion
from seer.trainers.borrowed.spec import BorrowedSettings, HFTokens, borrowed_config
from seer.trainers.verl.remote_engine import RemoteEngine
from seer.trainers.verl.servers import Note, VerlServer
from seer.trainers.verl.settings import Lengths, VerlSettings
from seer.types import EngineInfo, RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSetup:
    """What the router is told of verl's configuration."""

    settings: VerlSettings
    lengths: Lengths
    seed: int
    max_running: int
    max_context_tokens: int
    model: str
    tokenizer: Any
    """transformers'."""
    eos_token_ids: tuple[int, ...]
    engine: EngineInfo | None
    """Of Seer's engine; None: the servers are verl's own."""

    @property
    def is_seer_engine(self) -> bool:
        """Whether the servers run Seer's engine."""
        return self.engine is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemoteSpec:
    """Servers of Seer's engine, by instance id."""

    info: EngineInfo
    tokens: Tokenizer
    handles: tuple[Any, ...]
    notes: MutableMapping[RequestId, Note]
    version: OneVersion = field(default_factory=OneVersion)

    def describe(self) -> EngineInfo:
        return self.info

    def tokenizer(self) -> Tokenizer:
        return self.tokens

    async def launch(self, setup: InstanceSetup) -> Engine:
        i = setup.instance_id
        return RemoteEngine(self.info, i, self.handles[i], self.notes, self.version)


def fleet_config(
    setup: RouterSetup,
    handles: Sequence[Any],
    params: Callable[[int], Mapping[str, Any]],
    notes: MutableMapping[RequestId, Note],
) -> RolloutConfig:
    """One instance a server. Raises InvalidInput without servers, or for an unknown policy."""
    if setup.engine is None:
        return _borrowed(setup, handles, params, notes)
    spec = _RemoteSpec(
        info=setup.engine,
        tokens=HFTokens(setup.tokenizer),
        handles=tuple(handles),
        notes=notes,
    )
    return RolloutConfig(
        engine=spec,
        num_instances=len(handles),
        policy=setup.settings.policy,
        chunk_size=setup.settings.chunk_size,
        placement=PlacementConfig(max_spread=setup.settings.max_spread),
        pool=PoolConfig(host_bytes=0),
    )


def _borrowed(
    setup: RouterSetup,
    handles: Sequence[Any],
    params: Callable[[int], Mapping[str, Any]],
    notes: MutableMapping[RequestId, Note],
) -> RolloutConfig:
    tokens = HFTokens(setup.tokenizer)
    settings = BorrowedSettings(
        policy=setup.settings.policy,
        chunk_size=setup.settings.chunk_size,
        kv_tokens=setup.settings.kv_tokens,
        max_running=setup.max_running,
        max_spread=setup.settings.max_spread,
    )
    return borrowed_config(
        settings,
        model=setup.model,
        engines=[
            VerlServer(
                i,
                handle,
                params=params,
                notes=notes,
                eos_token_ids=setup.eos_token_ids,
                decode=tokens.decode,
            )
            for i, handle in enumerate(handles)
        ],
        tokens=tokens,
        vocab_size=len(setup.tokenizer),
        max_context_tokens=setup.max_context_tokens,
    )

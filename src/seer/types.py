"""The values that the rooms exchange: requests, chunks, KV objects, instances.

Everything here is an immutable msgspec struct, so the same value is a function argument, a
message between processes and a line of a trace. No behaviour beyond validation and derived counts.

KV is named by *objects*, not by blocks, above the engines: the KV of a group's prompt (shared by
all members) and, for each request, the KV of what follows the prompt's full blocks. How an object
splits into blocks is arithmetic over `block_size` (`kvpool/blocks.py`); what its bytes are is
checked by the engine against the salted hash chain of its tokens (`kvpool/keys.py`).
"""

import enum
import math
from collections.abc import Mapping

import msgspec

from seer.errors import InvalidInput

MAX_SEED = 2**63 - 1


class RequestId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One response of one group (the paper's r_{g,i})."""

    group: int
    member: int

    def __str__(self) -> str:
        return f"{self.group}.{self.member}"

    @property
    def kv_key(self) -> "KVKey":
        """Names the KV object of this request."""
        return KVKey(self.group, self.member)


class KVKey(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A KV object: a group's prompt (`member` is None) or the rest of one request."""

    group: int
    member: int | None = None

    @property
    def is_prompt(self) -> bool:
        """Whether this is the prompt that all members of the group share."""
        return self.member is None


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tokens are drawn. Names and meanings are vLLM's; `seed` keys every draw (see below).

    The uniform number of a token is a counter-based hash of (seed, group, member, position), so a
    text does not depend on chunking, placement or batch. Raises InvalidInput on a bad value.
    """

    temperature: float = 1.0
    """Softmax temperature; 0 is greedy."""
    top_p: float = 1.0
    """Nucleus mass in (0, 1]; 1 is off."""
    top_k: int = 0
    """Keep the k likeliest tokens; 0 is off."""
    min_p: float = 0.0
    """Keep tokens with probability >= min_p times the likeliest one's; 0 is off."""
    max_tokens: int = 512
    """Limit of output tokens of a request, over all of its chunks."""
    stop: tuple[str, ...] = ()
    """Strings that end a response; the token that completes one is kept."""
    stop_token_ids: tuple[int, ...] = ()
    """Token ids that end a response, besides the model's end token; kept in the output."""
    ignore_eos: bool = False
    """Go on after the model's end token (up to `max_tokens`)."""
    seed: int = 0
    """Key of every draw of the rollout."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InvalidInput("temperature", self.temperature, "allowed: a finite number >= 0")
        if not 0 < self.top_p <= 1:
            raise InvalidInput("top_p", self.top_p, "allowed: 0 < top_p <= 1")
        if self.top_k < 0:
            raise InvalidInput("top_k", self.top_k, "allowed: an integer >= 0 (0 is off)")
        if not 0 <= self.min_p <= 1:
            raise InvalidInput("min_p", self.min_p, "allowed: 0 <= min_p <= 1")
        if self.max_tokens < 1:
            raise InvalidInput("max_tokens", self.max_tokens, "allowed: an integer >= 1")
        if not 0 <= self.seed <= MAX_SEED:
            raise InvalidInput("seed", self.seed, "allowed: an integer in [0, 2^63)")
        if any(not text for text in self.stop):
            raise InvalidInput("stop", self.stop, "allowed: non-empty strings")
        if any(token < 0 for token in self.stop_token_ids):
            raise InvalidInput("stop_token_ids", self.stop_token_ids, "allowed: ids >= 0")


class FinishReason(enum.StrEnum):
    """Why a request ended."""

    STOP = "stop"
    """End token, stop token or stop string."""
    LENGTH = "length"
    """`max_tokens` reached."""
    CANCELLED = "cancelled"
    """The user cancelled its group."""


class ChunkEnd(enum.StrEnum):
    """Why a chunk ended."""

    STOP = "stop"
    """The request is done: end token, stop token or stop string."""
    LENGTH = "length"
    """The chunk's `max_tokens` are generated."""
    ABORTED = "aborted"
    """Cut short by `Engine.abort`; what was generated counts."""


class Tier(enum.StrEnum):
    """A tier of the KV pool."""

    HOST = "host"
    DISK = "disk"
    REMOTE = "remote"
    """A store beyond this machine, where blocks are found by their keys: slots only count them."""


class PoolEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Where one KV object lies in the pool.

    `slots[i]` holds the object's i-th block; `num_tokens` counts the tokens of the request
    (from its first prompt token) that are covered when the object ends.
    """

    key: KVKey
    tier: Tier
    slots: tuple[int, ...]
    num_tokens: int


class ExportKV(msgspec.Struct, frozen=True, kw_only=True, tag="export"):
    """Copy a KV object that an instance holds into slots of the pool; it stays there too."""

    key: KVKey
    slots: tuple[int, ...]
    tier: Tier = Tier.HOST
    """HOST, or REMOTE in a pool without host slots."""


class DropKV(msgspec.Struct, frozen=True, kw_only=True, tag="drop"):
    """Free a KV object on an instance. Unknown objects are ignored."""

    key: KVKey


KVMove = ExportKV | DropKV


class KVMoved(msgspec.Struct, frozen=True, kw_only=True):
    """What a KV move did. An export that failed costs a later re-prefill, nothing else."""

    key: KVKey
    ok: bool
    num_tokens: int = 0
    """Tokens covered by the exported object, counted from the first prompt token."""
    num_bytes: int = 0


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk of one request, as an engine gets it (paper section 3, Algorithm 2 line 16)."""

    request_id: RequestId
    chunk_index: int
    """0, 1, ... over the life of the request, restarts included; names this attempt."""
    sampling_group: int
    """The group number that keys the draws: its place in the user's call."""
    prompt_token_ids: list[int]
    output_token_ids: list[int]
    """Tokens generated by earlier chunks."""
    sampling: SamplingParams
    max_tokens: int
    """Tokens that this chunk may generate: min(chunk_size, limit - generated)."""
    keep_kv: bool
    """Keep the request's KV on the instance when the chunk ends by length or abort."""
    loads: tuple[PoolEntry, ...] = ()
    """Pool entries to take KV from where the instance does not hold it; best effort."""
    weight_version: int = 0
    """Version of the weights that must generate it; an engine with other weights fails it."""
    is_probe: bool = False
    """Whether the request is its group's probe (paper section 4.1)."""
    draft_weight: float = 1.0
    """What a token of it is worth to the rollout, where drafts of several requests compete."""


class ChunkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a running chunk since its last report."""

    request_id: RequestId
    chunk_index: int
    token_ids: list[int]
    logprobs: list[float]


class ChunkStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a chunk cost on its instance. Positions count tokens whose KV was written."""

    num_prompt_prefilled: int = 0
    """Prompt positions computed (0 when the group's prompt was there)."""
    num_output_prefilled: int = 0
    """Positions of earlier-generated tokens computed again because their KV was missing."""
    num_preemptions: int = 0
    num_loaded_tokens: int = 0
    """Positions taken from the pool."""
    num_loaded_bytes: int = 0
    num_load_failures: int = 0
    """Pool blocks that were missing, foreign or corrupt."""
    num_decode_steps: int = 0
    """Steps that generated a token or more for the chunk."""
    num_drafted: int = 0
    """Tokens guessed and verified (speculative decoding)."""
    num_accepted: int = 0
    """Those among them that became part of the response."""
    drafted_by_position: tuple[int, ...] = ()
    """Steps whose draft reached the first, second, ... place behind the text."""
    accepted_by_position: tuple[int, ...] = ()
    """Steps in which a guess at that place, and at all before it, was right."""


class InstanceLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Load of an instance, reported with every chunk result."""

    free_kv_tokens: int
    num_running: int
    num_waiting: int
    """Requests that the instance holds but does not run (no free blocks)."""
    step_s: float = 0.0
    """Seconds of steps since its last report."""
    draft_s: float = 0.0
    """Seconds of drafting among them."""


class ChunkResult(msgspec.Struct, frozen=True, kw_only=True):
    """All tokens of one finished chunk."""

    request_id: RequestId
    chunk_index: int
    token_ids: list[int]
    logprobs: list[float]
    """Log-probability of each token, `raw` or `processed` as the engine is configured."""
    end: ChunkEnd
    stats: ChunkStats
    load: InstanceLoad


class WeightUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """New policy weights: a directory with safetensors files in Hugging Face names."""

    version: int
    path: str


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheduler must know of an engine; known before any weight is loaded."""

    model: str
    block_size: int
    """Tokens a KV block."""
    num_blocks: int
    """KV blocks of one instance."""
    block_bytes: int
    """Bytes of one block over all layers: the payload of one pool slot."""
    max_running_requests: int
    max_context_tokens: int
    vocab_size: int
    verifies_drafts: bool = False
    """Whether a step can verify guessed tokens (speculative decoding)."""

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens whose KV fits on one instance."""
        return self.block_size * self.num_blocks


class RemoteAddress(msgspec.Struct, frozen=True, kw_only=True):
    """How a process reaches the pool's remote tier."""

    master: str
    """`host:port` of a Mooncake master."""
    namespace: str
    """Begins the name of every object of this pool: other pools in the store are not met."""


class PoolAddress(msgspec.Struct, frozen=True, kw_only=True):
    """How a process reaches the pool's tiers."""

    host_path: str
    """File in shared memory, or addresses of pool nodes by commas: `num_host_slots` slots."""
    num_host_slots: int
    disk_path: str
    """File on disk: `num_disk_slots` slots (empty when 0)."""
    num_disk_slots: int
    payload_bytes: int
    """KV bytes a slot holds; each slot has a header besides (`kvpool/slots.py`)."""
    remote: RemoteAddress | None = None
    num_remote_slots: int = 0
    """Blocks that the pool may keep in the remote tier (0 without one)."""


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A submitted group, as the controller sees it: counts, no tokens."""

    group_id: int
    group_size: int
    num_prompt_tokens: int
    max_tokens: int
    """Limit of output tokens of each member."""
    known_lengths: tuple[int, ...] = ()
    """Output tokens of each member, from an earlier run with the same draws; the `oracle` policy
    needs them. Empty: not known."""
    prior_tokens: float | None = None
    """Mean output tokens of this prompt's responses in an earlier iteration; None: not known."""


class InstanceView(msgspec.Struct, frozen=True, kw_only=True):
    """An instance as placement sees it, for one request."""

    instance_id: int
    num_in_flight: int
    """Chunks in flight on it."""
    free_blocks: int
    """Blocks neither held nor reserved."""
    reclaimable_blocks: int
    """Blocks of idle KV objects that could be moved out for this request."""
    needed_blocks: int
    """Blocks that the chunk would add there, given what is resident."""
    cached_tokens: int
    """Tokens of the request whose KV is resident there."""
    has_slot: bool
    """Whether the concurrency cap allows one more request."""


Metadata = Mapping[str, object]

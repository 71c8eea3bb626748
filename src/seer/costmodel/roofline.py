"""Step time from first principles: bytes over bandwidth against FLOPs over rate.

docs/costmodel.md has the equations, their sources and what is assumed.
"""

import math

import msgspec

from seer.costmodel.hardware import Hardware
from seer.costmodel.layout import Layout, shard
from seer.costmodel.models import ModelShape
from seer.costmodel.step_time import DraftCost, require_non_negative
from seer.errors import InvalidInput

ACTIVATION_BYTES = 2
"""Of one hidden element on a link (bfloat16)."""
DISPATCH_BYTES = 1
"""Of one hidden element sent to an expert (FP8; DeepEP, arXiv:2412.19437 section 3.2.2)."""


class Overhead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time of a step that no roofline knows: scheduling, launches, sampling, detokenising.

    Paper silent: the defaults are a guess at an in-house vLLM; calibrate them on a measured rate.
    """

    step_s: float = 3e-3
    per_request_s: float = 10e-6

    def __post_init__(self) -> None:
        require_non_negative(self)


class RooflineStepTime(msgspec.Struct, frozen=True, kw_only=True):
    """Step time with the constants of one model on one instance; seconds of its busiest GPU.

    T = overhead + max(weights read, products) + max(experts read, expert products)
    + context * max(KV read, attention) + exchange; the parts follow each other and do not overlap.
    """

    fixed_s: float
    per_request_s: float
    always_read_s: float
    """Reading the weights that every step needs."""
    always_token_s: float
    """Their products for one token of a rank."""
    routed_read_s: float
    """Reading all routed experts of a GPU."""
    untouched: float
    """Probability that one token leaves a given expert alone: 1 - active / experts."""
    routed_token_s: float
    """Expert products for one token of the instance."""
    kv_read_s: float
    """Reading one KV token of a rank."""
    attend_s: float
    """One fed token's attention to one KV token of a rank."""
    exchange_fixed_s: float
    exchange_token_s: float
    """Sending one token of a rank through all collectives of a step."""
    num_ranks: int
    prefill_token_s: float
    """Layers' products of one token (no output head) and its exchange."""
    prefill_attended_s: float
    draft: DraftCost = DraftCost()

    def step_s(self, num_requests: float, num_tokens: float, context_tokens: float) -> float:
        """See StepTime. Requests are spread evenly over ranks; a lone one has a rank to itself."""
        ranks = self._ranks(num_requests)
        tokens = num_tokens / ranks
        seconds = (
            self.fixed_s
            + self.per_request_s * num_requests
            + max(self.always_read_s, self.always_token_s * tokens)
            + self.exchange_fixed_s
            + self.exchange_token_s * tokens
        )
        if self.routed_read_s:
            touched = 1.0 - self.untouched**num_tokens
            seconds += max(self.routed_read_s * touched, self.routed_token_s * num_tokens)
        if num_requests <= 0:
            return seconds
        width = num_tokens / num_requests
        return seconds + context_tokens / ranks * max(self.kv_read_s, self.attend_s * width)

    def prefill_s(self, num_tokens: float, context_tokens: float) -> float:
        """See StepTime. Prefills are taken to be spread over the ranks like requests."""
        attended = num_tokens * (context_tokens + num_tokens / 2)
        return self.prefill_token_s * num_tokens + self.prefill_attended_s * attended

    def draft_s(self, num_requests: float, num_draft_tokens: float) -> float:
        """See StepTime."""
        return self.draft.seconds(num_requests, num_draft_tokens)

    def slowed(self, factor: float) -> "RooflineStepTime":
        """The same with every part but drafting `factor` times as long: one knob to calibrate.

        Raises InvalidInput unless the factor is positive and finite.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise InvalidInput("factor", factor, "allowed: a number > 0")
        seconds = {
            name: getattr(self, name) * factor
            for name in self.__struct_fields__
            if name.endswith("_s")
        }
        return msgspec.structs.replace(self, **seconds)

    def _ranks(self, num_requests: float) -> float:
        """Ranks that have requests."""
        return min(self.num_ranks, max(num_requests, 1.0))


def roofline(
    model: ModelShape,
    hardware: Hardware,
    layout: Layout,
    overhead: Overhead = Overhead(),  # noqa: B008 - immutable
    draft: DraftCost = DraftCost(),  # noqa: B008 - immutable
) -> RooflineStepTime:
    """Step time of a model on one instance. Raises InvalidInput when the layout cannot cut it."""
    part = shard(model, layout)
    cut = layout.num_gpus if layout.kind == "tensor" else 1
    product_s = 2 / hardware.flops(model.weight_bytes)
    attention_s = model.num_layers / (hardware.flops(2) * cut)
    always_s = product_s * model.always_parameters / cut
    routed_s = product_s * model.routed_parameters_per_token / layout.num_gpus
    exchange_fixed_s, exchange_token_s = _exchange(model, hardware, layout)
    experts = model.experts
    return RooflineStepTime(
        fixed_s=overhead.step_s,
        per_request_s=overhead.per_request_s,
        always_read_s=part.always_bytes / hardware.weight_bytes_per_s,
        always_token_s=always_s + product_s * model.embedding_parameters / cut,
        routed_read_s=part.routed_bytes / hardware.weight_bytes_per_s,
        untouched=1 - experts.num_active / experts.num_experts if experts else 1.0,
        routed_token_s=routed_s,
        kv_read_s=part.kv_bytes_per_token / hardware.kv_bytes_per_s,
        attend_s=model.attention.decode_flops * attention_s,
        exchange_fixed_s=exchange_fixed_s,
        exchange_token_s=exchange_token_s,
        num_ranks=layout.num_ranks,
        prefill_token_s=(always_s + exchange_token_s) / layout.num_ranks + routed_s,
        prefill_attended_s=model.attention.prefill_flops * attention_s / layout.num_ranks,
        draft=draft,
    )


def _exchange(model: ModelShape, hardware: Hardware, layout: Layout) -> tuple[float, float]:
    """Collectives of a step: seconds whatever the tokens, and seconds a token of a rank."""
    n = layout.num_gpus
    if n == 1:
        return 0.0, 0.0
    rate = hardware.exchange_bytes_per_s(n)
    if layout.kind == "tensor":  # two all-reduces a layer, each moving 2 (n - 1) / n of the data
        num = 2 * model.num_layers
        moved = 2 * (n - 1) / n * model.hidden_size * ACTIVATION_BYTES
        return num * hardware.collective_s, num * moved / rate
    assert model.experts is not None  # noqa: S101 - shard() has refused such a layout
    # Dispatch and combine send a copy an expert; across nodes, NVLink carries the node's own share
    # meanwhile.
    own = hardware.gpus_per_node if n > hardware.gpus_per_node else 1
    copies = model.experts.num_active * (n - own) / n
    moved = copies * model.hidden_size * (DISPATCH_BYTES + ACTIVATION_BYTES)
    num = model.num_expert_layers
    return 2 * num * hardware.exchange_s, num * moved / rate

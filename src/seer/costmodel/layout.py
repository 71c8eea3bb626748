"""How one instance spreads a model over its GPUs: weights, KV and what fits."""

import re
from typing import Literal

import msgspec

from seer.costmodel.hardware import Hardware
from seer.costmodel.models import ModelShape
from seer.errors import InvalidInput

_FORM = re.compile(r"tp(?P<tp>[1-9]\d*)|dp(?P<dp>[1-9]\d*)\+?ep(?P<ep>[1-9]\d*)")
_FORMS = "allowed: tpN (tensor parallel), or dpN+epN (attention replicated, experts divided)"


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of one instance and how they share the work.

    `tensor`: every matrix is cut into `num_gpus` parts; all GPUs work on all requests.
    `data_expert`: attention, dense MLPs and shared experts are on every GPU, each with a share of
    the requests; each GPU holds its share of the routed experts, for the tokens of all.
    """

    kind: Literal["tensor", "data_expert"] = "tensor"
    num_gpus: int = 1

    def __post_init__(self) -> None:
        if self.num_gpus < 1:
            raise InvalidInput("num_gpus", self.num_gpus, "allowed: an integer >= 1")

    @property
    def num_ranks(self) -> int:
        """Groups of GPUs with requests of their own."""
        return self.num_gpus if self.kind == "data_expert" else 1


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU of an instance holds."""

    always_bytes: float
    """Weights that every step reads: attention, MLPs, shared experts, router, output head."""
    routed_bytes: float
    """Routed experts."""
    other_bytes: float
    """Weights that a decode step does not read: input embedding, vision tower."""
    kv_bytes_per_token: float
    """For each token of a request of this GPU's rank."""

    @property
    def weight_bytes(self) -> float:
        """All weights of this GPU."""
        return self.always_bytes + self.routed_bytes + self.other_bytes


def parse_layout(text: str) -> Layout:
    """`tp8` or `dp32+ep32`. Raises InvalidInput on any other form."""
    match = _FORM.fullmatch(text.strip().lower())
    if match is None or match["dp"] != match["ep"]:
        raise InvalidInput("layout", text, _FORMS)
    if match["tp"]:
        return Layout(kind="tensor", num_gpus=int(match["tp"]))
    return Layout(kind="data_expert", num_gpus=int(match["dp"]))


def shard(model: ModelShape, layout: Layout) -> Shard:
    """One GPU's part of a model. Raises InvalidInput when the layout cannot cut it."""
    _check_divisible(model, layout)
    n = layout.num_gpus
    cut = n if layout.kind == "tensor" else 1
    tables = 0 if model.tied_embeddings else model.embedding_parameters
    return Shard(
        always_bytes=(model.always_parameters + model.embedding_parameters)
        * model.weight_bytes
        / cut,
        routed_bytes=model.routed_parameters * model.weight_bytes / n,
        other_bytes=(tables + model.other_parameters) * model.weight_bytes / cut,
        kv_bytes_per_token=model.kv_bytes_per_token / model.attention.kv_shards(cut),
    )


def kv_capacity_tokens(model: ModelShape, hardware: Hardware, layout: Layout) -> int:
    """KV tokens that fit on one instance: usable memory less weights, over all ranks.

    Raises InvalidInput when the weights alone do not fit.
    """
    part = shard(model, layout)
    free = hardware.usable_bytes - part.weight_bytes
    if free <= 0:
        raise InvalidInput(
            "layout",
            f"{layout.num_gpus} x {hardware.name} for {model.name}",
            f"allowed: more GPUs; {part.weight_bytes / 1e9:.0f} GB of weights on each exceed "
            f"{hardware.usable_bytes / 1e9:.0f} GB",
        )
    return int(free / part.kv_bytes_per_token) * layout.num_ranks


def _check_divisible(model: ModelShape, layout: Layout) -> None:
    n = layout.num_gpus
    if layout.kind == "tensor":
        if model.attention.num_heads % n:
            heads = model.attention.num_heads
            raise InvalidInput("layout", f"tp{n}", f"allowed: tpN with N dividing {heads} heads")
    elif model.experts is None:
        raise InvalidInput("layout", f"dp{n}+ep{n}", f"allowed: tpN; {model.name} has no experts")
    elif model.experts.num_experts % n:
        experts = model.experts.num_experts
        raise InvalidInput("layout", f"dp{n}+ep{n}", f"allowed: N dividing {experts} experts")

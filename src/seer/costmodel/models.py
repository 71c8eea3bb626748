"""Shapes of language models: parameters, KV bytes and arithmetic, from their public config.json.

Parameters are counted for matrices only (norms and biases are below a thousandth). A "layer" number
is of one decoder layer. FLOPs count a multiply and an add as two.
"""

import msgspec

from seer.errors import InvalidInput


class GroupedQueryAttention(msgspec.Struct, frozen=True, kw_only=True):
    """Attention with `num_kv_heads` shared keys and values (MHA and MQA are its extremes)."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    def parameters(self, hidden_size: int) -> int:
        """Query, key, value and output projections of one layer."""
        return hidden_size * self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads)

    @property
    def kv_elements(self) -> int:
        """Elements cached for one token in one layer."""
        return 2 * self.num_kv_heads * self.head_dim

    @property
    def decode_flops(self) -> int:
        """One token's attention to one cached token in one layer: scores and weighted sum."""
        return 4 * self.num_heads * self.head_dim

    @property
    def prefill_flops(self) -> int:
        """The same in a prefill."""
        return self.decode_flops

    def kv_shards(self, num_gpus: int) -> int:
        """Parts into which tensor parallelism can cut the cache: one key-value head each."""
        return min(num_gpus, self.num_kv_heads)


class LatentAttention(msgspec.Struct, frozen=True, kw_only=True):
    """Multi-head latent attention of DeepSeek-V2 and V3 (arXiv:2405.04434, section 2.1).

    Decoding keeps the latent and absorbs the up-projections into query and output, so a cached
    token is `kv_rank + rope_dim` elements: the key of all heads, its first `kv_rank` the value.
    """

    num_heads: int
    q_rank: int | None
    """Rank of the query's down-projection; None: queries are projected directly."""
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int

    def parameters(self, hidden_size: int) -> int:
        """Projections of one layer."""
        key_dim = self.nope_dim + self.rope_dim
        if self.q_rank is None:
            query = hidden_size * self.num_heads * key_dim
        else:
            query = self.q_rank * (hidden_size + self.num_heads * key_dim)
        down = hidden_size * (self.kv_rank + self.rope_dim)
        up = self.kv_rank * self.num_heads * (self.nope_dim + self.value_dim)
        return query + down + up + self.num_heads * self.value_dim * hidden_size

    @property
    def kv_elements(self) -> int:
        """Elements cached for one token in one layer."""
        return self.kv_rank + self.rope_dim

    @property
    def decode_flops(self) -> int:
        """One token's attention to one cached token in one layer, in the absorbed form."""
        return 2 * self.num_heads * (2 * self.kv_rank + self.rope_dim)

    @property
    def prefill_flops(self) -> int:
        """The same in a prefill, where keys and values are expanded to heads."""
        return 2 * self.num_heads * (self.nope_dim + self.rope_dim + self.value_dim)

    def kv_shards(self, num_gpus: int) -> int:  # noqa: ARG002 - the same question as above
        """Parts into which tensor parallelism can cut the cache: every head needs all of it."""
        return 1


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """Mixture of experts in place of the MLP of all layers but the first `num_dense_layers`."""

    num_experts: int
    num_active: int
    """Routed experts that one token uses."""
    num_shared: int
    """Experts that every token uses."""
    intermediate_size: int
    num_dense_layers: int


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder-only model (or the language part of one that sees)."""

    name: str
    source: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    attention: GroupedQueryAttention | LatentAttention
    experts: Experts | None = None
    tied_embeddings: bool = False
    other_parameters: int = 0
    """Parameters that take memory and no time in a decode step (a vision tower)."""
    weight_bytes: float = 2
    """Bytes of one parameter as served."""
    kv_element_bytes: float = 2

    @property
    def num_expert_layers(self) -> int:
        """Layers with routed experts."""
        return self.num_layers - self.experts.num_dense_layers if self.experts else 0

    @property
    def expert_parameters(self) -> int:
        """One routed expert in one layer: gate, up and down."""
        return 3 * self.hidden_size * self.experts.intermediate_size if self.experts else 0

    @property
    def routed_parameters(self) -> int:
        """All routed experts of all layers."""
        experts = self.experts
        return (
            self.num_expert_layers * experts.num_experts * self.expert_parameters if experts else 0
        )

    @property
    def routed_parameters_per_token(self) -> int:
        """Routed parameters that one token multiplies with."""
        experts = self.experts
        return (
            self.num_expert_layers * experts.num_active * self.expert_parameters if experts else 0
        )

    @property
    def embedding_parameters(self) -> int:
        """The input embedding, or the output head: one table."""
        return self.vocab_size * self.hidden_size

    @property
    def always_parameters(self) -> int:
        """What every token multiplies with in the layers: all but routed experts and tables."""
        mlp = 3 * self.hidden_size * self.intermediate_size
        total = self.num_layers * self.attention.parameters(self.hidden_size)
        total += (self.num_layers - self.num_expert_layers) * mlp
        if self.experts:
            shared = self.experts.num_shared * self.expert_parameters
            router = self.experts.num_experts * self.hidden_size
            total += self.num_expert_layers * (shared + router)
        return total

    @property
    def total_parameters(self) -> int:
        """All parameters."""
        tables = 1 if self.tied_embeddings else 2
        layers = self.always_parameters + self.routed_parameters
        return layers + tables * self.embedding_parameters + self.other_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one decoded token multiplies with, output head included."""
        layers = self.always_parameters + self.routed_parameters_per_token
        return layers + self.embedding_parameters

    @property
    def kv_bytes_per_token(self) -> float:
        """Cache of one token over all layers."""
        return self.num_layers * self.attention.kv_elements * self.kv_element_bytes


MODELS = {
    shape.name: shape
    for shape in (
        ModelShape(
            name="moonlight-16b-a3b",
            source="huggingface.co/moonshotai/Moonlight-16B-A3B/blob/main/config.json",
            num_layers=27,
            hidden_size=2048,
            intermediate_size=11264,
            vocab_size=163840,
            attention=LatentAttention(
                num_heads=16, q_rank=None, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128
            ),
            experts=Experts(
                num_experts=64,
                num_active=6,
                num_shared=2,
                intermediate_size=1408,
                num_dense_layers=1,
            ),
        ),
        ModelShape(
            name="qwen2-vl-72b",
            source="huggingface.co/Qwen/Qwen2-VL-72B-Instruct/blob/main/config.json; "
            "vision tower of 675 M parameters: arXiv:2409.12191, table 1",
            num_layers=80,
            hidden_size=8192,
            intermediate_size=29568,
            vocab_size=152064,
            attention=GroupedQueryAttention(num_heads=64, num_kv_heads=8, head_dim=128),
            other_parameters=675_000_000,
        ),
        ModelShape(
            name="kimi-k2",
            source="huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/config.json (FP8 weights)",
            num_layers=61,
            hidden_size=7168,
            intermediate_size=18432,
            vocab_size=163840,
            attention=LatentAttention(
                num_heads=64, q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128
            ),
            experts=Experts(
                num_experts=384,
                num_active=8,
                num_shared=1,
                intermediate_size=2048,
                num_dense_layers=1,
            ),
            weight_bytes=1,
        ),
        ModelShape(
            name="smollm2-135m",
            source="huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/blob/main/config.json",
            num_layers=30,
            hidden_size=576,
            intermediate_size=1536,
            vocab_size=49152,
            attention=GroupedQueryAttention(num_heads=9, num_kv_heads=3, head_dim=64),
            tied_embeddings=True,
        ),
        ModelShape(
            name="qwen3-8b",
            source="huggingface.co/Qwen/Qwen3-8B/blob/main/config.json",
            num_layers=36,
            hidden_size=4096,
            intermediate_size=12288,
            vocab_size=151936,
            attention=GroupedQueryAttention(num_heads=32, num_kv_heads=8, head_dim=128),
        ),
        ModelShape(
            name="llama-3.1-8b",
            source="huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json",
            num_layers=32,
            hidden_size=4096,
            intermediate_size=14336,
            vocab_size=128256,
            attention=GroupedQueryAttention(num_heads=32, num_kv_heads=8, head_dim=128),
        ),
    )
}
"""The models known by name."""


def find_model(name: str) -> ModelShape:
    """A known model. Raises InvalidInput, listing the known names."""
    if name not in MODELS:
        raise InvalidInput("model", name, f"allowed: {', '.join(sorted(MODELS))}")
    return MODELS[name]

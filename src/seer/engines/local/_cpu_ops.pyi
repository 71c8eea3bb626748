# The native operations (csrc/bindings.cpp). Addresses are those of contiguous CPU tensors.

BLOCK_TOKENS: int
SAMPLE_ROW_BYTES: int

def supported_isas() -> list[str]: ...

class CpuOps:
    def __init__(
        self,
        isa: str,
        bfloat16: bool,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        scale: float,
        eps: float,
    ) -> None: ...
    def add_rms_norm(
        self, rows: int, dim: int, x: int, residual: int, weight: int, out: int, /
    ) -> None: ...
    def set_batch(
        self,
        num_rows: int,
        num_seqs: int,
        positions: int,
        slots: int,
        seen: int,
        also_seen: int,
        row_seq: int,
        query_start: int,
        block_table: int,
        table_stride: int,
        /,
    ) -> None: ...
    def attend(
        self,
        kv_base: int,
        block_stride: int,
        qkv: int,
        rope: int,
        q_norm: int,
        k_norm: int,
        out: int,
        /,
    ) -> None: ...
    def silu_mul(self, rows: int, dim: int, gate_up: int, out: int, /) -> None: ...
    def move_tokens(
        self,
        memory: int,
        block_stride: int,
        layer_stride: int,
        num_layers: int,
        count: int,
        moves: int,
    ) -> None: ...
    def sample(
        self,
        rows: int,
        vocab: int,
        logits: int,
        how: int,
        raw: bool,
        tokens: int,
        logprobs: int,
        /,
    ) -> None: ...

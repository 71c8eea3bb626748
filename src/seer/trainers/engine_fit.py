"""Whether the engine's model is the one that is trained."""

from typing import Any

from seer.engines.local.model_config import ModelConfig, read_model_config
from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec
from seer.errors import InvalidInput
from seer.rollout.engine import EngineSpec

_SHAPE = {
    "model_type": "family",
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "vocab_size": "vocab_size",
    "tie_word_embeddings": "tied_embeddings",
}
"""Names in a Hugging Face configuration, and in ModelConfig."""


def local_spec(spec: EngineSpec) -> LocalSpec | None:
    """The local engine behind a spec; None: another engine."""
    inner = spec.inner if isinstance(spec, ProcessSpec) else spec
    return inner if isinstance(inner, LocalSpec) else None


def check_fit(spec: EngineSpec, config: Any, num_tokens: int) -> None:
    """Raise InvalidInput when the engine's model is not of the trained one's shape.

    `config` is the trained model's Hugging Face configuration, `num_tokens` the size of its
    tokenizer, special tokens included.
    """
    info = spec.describe()
    if num_tokens > info.vocab_size:
        allowed = f"allowed: at most the model's vocab_size ({info.vocab_size}) tokens"
        raise InvalidInput("processing_class", f"a tokenizer of {num_tokens} tokens", allowed)
    local = local_spec(spec)
    if local is not None:
        _check_shape(local.model, read_model_config(local.model), config)


def _check_shape(model: str, engine: ModelConfig, config: Any) -> None:
    for name, field in _SHAPE.items():
        has, wants = getattr(engine, field), getattr(config, name)
        if has != wants:
            allowed = (
                f"allowed: the trained model, whose {name} is {wants!r}; this one's is {has!r}"
            )
            raise InvalidInput("model", model, allowed)

"""A tokenizer of single characters, to make a tiny model a complete model directory."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from support.tiny_models import VOCAB, make_tiny_model

PRINTABLE = [chr(code) for code in range(32, 127)]


def make_tiny_model_directory(directory: Path, name: str = "llama") -> Path:
    """A tiny model (one of TINY_MODELS) with a tokenizer, in Hugging Face format."""
    make_tiny_model(name, directory)
    names = ["<unk>", "<end>", *PRINTABLE]
    names += [f"<{number}>" for number in range(VOCAB - len(names))]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",  # noqa: S106
        eos_token="<end>",  # noqa: S106
        chat_template="{% for m in messages %}{{ m.content }}\n{% endfor %}",
    )
    fast.save_pretrained(directory)
    return directory

"""What is refused of model and tokenizer before the model is loaded."""

import json
from pathlib import Path

import pytest

from seer.errors import InvalidInput
from seer.trainers.training.config import TaskConfig, TrainConfig
from seer.trainers.training.items import Item, ItemSet
from seer.trainers.training.model_check import (
    check_prompts,
    check_tokenizer,
    engine_spec,
    load_tokenizer,
)

pytest.importorskip("transformers")

from support.tiny_tokenizer import make_tiny_model_directory

CONFIG = TrainConfig(tasks=[TaskConfig(name="chain_sum")], kv_tokens=128, max_tokens=64)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_tiny_model_directory(tmp_path)


def change(model: Path, name: str, **values: object) -> None:
    path = model / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def one_item(question: str) -> ItemSet:
    item = Item(data_set=0, index=0, task="chain_sum", question=question, suffix="")
    return ItemSet(data_sets=(), train=(item,), held_out=())


def test_a_model_with_its_own_tokenizer_is_taken(model: Path) -> None:
    """Nothing to complain of."""
    check_tokenizer(str(model), load_tokenizer(str(model)))
    check_prompts(engine_spec(CONFIG, str(model)), one_item("1 + 1 = ?"), CONFIG.max_tokens)


def test_tokenizer_of_a_larger_vocabulary(model: Path) -> None:
    """Ids that the model does not have are refused."""
    change(model, "config.json", vocab_size=96)
    with pytest.raises(InvalidInput, match="its ids go up to 159, the model has 96"):
        check_tokenizer(str(model), load_tokenizer(str(model)))


def test_tokenizer_with_another_end_token(model: Path) -> None:
    """Responses would never end where the trainer expects it."""
    change(model, "config.json", eos_token_id=7)
    change(model, "generation_config.json", eos_token_id=7)
    with pytest.raises(InvalidInput, match=r"its end token is 1, the model ends with \[7\]"):
        check_tokenizer(str(model), load_tokenizer(str(model)))


def test_a_model_without_tokenizer(model: Path) -> None:
    """A directory whose tokenizer does not load is named."""
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(InvalidInput, match="its tokenizer does not load"):
        load_tokenizer(str(model))


def test_prompt_and_response_must_fit(model: Path) -> None:
    """The longest prompt with its limit needs room in context and KV memory."""
    spec = engine_spec(CONFIG, str(model))
    with pytest.raises(InvalidInput, match="kv_tokens: got 128"):
        check_prompts(spec, one_item("x" * 90), 64)
    with pytest.raises(InvalidInput, match="max_tokens: got 600"):
        check_prompts(spec, one_item("x" * 90), 600)

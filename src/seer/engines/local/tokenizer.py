"""The model's tokenizer behind the rollout's small interface."""

from collections.abc import Sequence

from transformers import AutoTokenizer

from seer.errors import InvalidInput


class HFTokenizer:
    """A Hugging Face tokenizer loaded from a local directory; nothing is downloaded."""

    def __init__(self, model: str) -> None:
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
        except (OSError, ValueError) as error:
            why = str(error).splitlines()[0]
            raise InvalidInput("model", model, f"its tokenizer does not load ({why})") from error

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, with the special tokens the model expects around it."""
        return list(self._tokenizer(text)["input_ids"])

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Token ids of a chat and the generation prompt. Raises InvalidInput without a template."""
        if not self._tokenizer.chat_template:
            raise InvalidInput("prompt", list(messages), "the tokenizer has no chat template")
        text = self._tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

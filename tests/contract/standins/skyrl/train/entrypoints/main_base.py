"""SkyRL's experiment, as far as a generator is made in it."""

from typing import Any

from skyrl.train.generators.turns import TurnsGenerator
from support.scripted_lm import CharTokenizer


class BasePPOExp:
    """Settings, tokenizer, generator."""

    ran: list[Any] = []  # noqa: RUF012 - what the test reads

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg
        self.tokenizer = CharTokenizer()

    def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> Any:
        """A generator over the client."""
        return TurnsGenerator(inference_engine_client, tokenizer, batched=cfg.generator.batched)

    def run(self) -> None:
        """Note that it ran."""
        self.ran.append(self.cfg)

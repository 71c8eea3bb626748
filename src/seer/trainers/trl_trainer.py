"""What is read of TRL's GRPOTrainer (1.16), and nothing else."""

from typing import Any, Protocol


class Trainer(Protocol):
    """GRPOTrainer as Seer sees it; attributes are TRL's own."""

    args: Any
    """GRPOConfig: `seed`, `generation_kwargs`."""
    state: Any
    """TrainerState: `global_step`."""
    model: Any
    """The policy, maybe wrapped; `training` says whether this is an evaluation."""
    accelerator: Any
    processing_class: Any
    """The tokenizer."""
    chat_template: str | None
    chat_template_kwargs: dict[str, Any]
    tools: list[Any]
    eos_token_ids: list[int]
    num_generations: int
    num_generations_eval: int
    max_completion_length: int | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float | None
    repetition_penalty: float

    def _log_metric(self, name: str, value: float) -> None:
        """Log a value of this batch; TRL hands the same function to rewards as `log_metric`."""

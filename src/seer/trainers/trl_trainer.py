"""What is read of TRL's GRPOTrainer (1.16), and what of it Seer cannot serve."""

from typing import Any, Protocol

from seer.errors import InvalidInput
from seer.types import SamplingParams


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
    tools: list[Any] | None
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


def check_supported(trainer: Trainer) -> None:
    """Raise InvalidInput, naming TRL's setting, for what Seer does not do."""
    processes = trainer.accelerator.num_processes
    if processes != 1:
        allowed = "allowed: 1 (Seer schedules the whole batch; give it more instances instead)"
        raise InvalidInput("num_processes", processes, allowed)
    if trainer.tools:
        raise InvalidInput("tools", trainer.tools, "allowed: none; Seer generates single turns")
    if trainer.repetition_penalty != 1:
        value = trainer.repetition_penalty
        raise InvalidInput("repetition_penalty", value, "allowed: 1.0 (Seer has none)")


def trainer_sampling(trainer: Trainer) -> SamplingParams:
    """The trainer's sampling settings; its end tokens end a response too."""
    if trainer.args.generation_kwargs:
        allowed = "allowed: none; give seer_rollout `sampling` instead"
        raise InvalidInput("generation_kwargs", trainer.args.generation_kwargs, allowed)
    if trainer.max_completion_length is None:
        allowed = "allowed: an integer >= 1, or give seer_rollout `sampling` with max_tokens"
        raise InvalidInput("max_completion_length", None, allowed)
    return SamplingParams(
        temperature=trainer.temperature,
        top_p=trainer.top_p,
        top_k=trainer.top_k,
        min_p=trainer.min_p or 0.0,
        max_tokens=trainer.max_completion_length,
        stop_token_ids=tuple(trainer.eos_token_ids),
        seed=trainer.args.seed,
    )


def check_sampling(trainer: Trainer, sampling: SamplingParams) -> None:
    """Raise InvalidInput where the trainer would compute other probabilities than were drawn."""
    if sampling.temperature == 0:
        raise InvalidInput("temperature", 0, "allowed: above 0 in training")
    if sampling.temperature != trainer.temperature:
        allowed = f"allowed: GRPOConfig's, {trainer.temperature}"
        raise InvalidInput("sampling.temperature", sampling.temperature, allowed)


def group_size(trainer: Trainer) -> int:
    """Completions of each prompt in the present mode."""
    return trainer.num_generations if trainer.model.training else trainer.num_generations_eval


def encode_prompt(trainer: Trainer, prompt: Any) -> list[int]:
    """Token ids as TRL itself makes them: message lists through the chat template, text as it is.

    Raises InvalidInput for messages without a template.
    """
    tokenizer = trainer.processing_class
    if isinstance(prompt, str):
        return list(tokenizer(text=prompt)["input_ids"])
    if trainer.chat_template is None and tokenizer.chat_template is None:
        raise InvalidInput(
            "prompts", prompt, "allowed: text, as the tokenizer has no chat template"
        )
    encoded = tokenizer.apply_chat_template(
        conversation=[prompt],
        chat_template=trainer.chat_template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **trainer.chat_template_kwargs,
    )
    return list(encoded["input_ids"][0])

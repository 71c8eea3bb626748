"""TRL's GRPOTrainer, set up for a run."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer

from seer.trainers.training.config import TrainConfig
from seer.trainers.training.items import Item
from seer.trainers.training.micro_batches import MicroBatch, by_length


class SeerTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL is not typed
    """GRPOTrainer with little padding, whose log event of a step carries our figures too."""

    def __init__(self, *, figures: Callable[[], dict[str, float]], **given: Any) -> None:
        self._seer_figures = figures
        self._seer_batches: list[MicroBatch] | None = None
        self._buffered_inputs: Any  # the base class's: one micro-batch for each pass of a step
        super().__init__(**given)

    def _prepare_inputs(self, generation_batch: Any) -> MicroBatch:
        """As the base class, but that a new rollout's responses are dealt by their length."""
        super()._prepare_inputs(generation_batch)
        batches: list[MicroBatch] = self._buffered_inputs
        if batches is not self._seer_batches:
            self._seer_batches = self._buffered_inputs = batches = by_length(batches)
        inputs: MicroBatch = batches[self._step % self.args.steps_per_generation]
        return inputs

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As the base class, after adding to a step's logs."""
        if "loss" in logs:
            logs.update(self._seer_figures())
        super().log(logs, start_time)


def make_trainer(
    config: TrainConfig,
    model: str,
    tokenizer: Any,
    schedule: Sequence[Item],
    *,
    rollout: Callable[[list[Any], Any], dict[str, Any]],
    reward: Callable[..., list[float]],
    callback: TrainerCallback,
    figures: Callable[[], dict[str, float]],
    first_step: int,
) -> SeerTrainer:
    """Load the model and make the trainer. `schedule` has the items of every step, in order."""
    trainer = SeerTrainer(
        figures=figures,
        # In float32 also for bfloat16, where autocast computes: a step of 1e-5 on a weight of 0.02
        # is less than a bfloat16 weight can show, and would be lost.
        model=AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.float32, local_files_only=True
        ),
        processing_class=tokenizer,
        args=grpo_arguments(config),
        train_dataset=Dataset.from_list([{"prompt": item.messages} for item in schedule]),
        reward_funcs=[reward],
        rollout_func=rollout,
        callbacks=[*_sinks(config, first_step), callback],
    )
    trainer.remove_callback(PrinterCallback)  # the run has a console of its own
    return trainer


def silence_libraries() -> None:
    """Keep progress bars and notices that concern our choices, not the user's, off the console."""
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message=".*'rollout_func'.*experimental")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")


def grpo_arguments(config: TrainConfig) -> GRPOConfig:
    """What is not named here is TRL's default; its loss and its scaling of rewards among it."""
    return GRPOConfig(
        output_dir=config.out,
        seed=config.seed,
        max_steps=config.steps,
        per_device_train_batch_size=config.micro_batch_size,
        gradient_accumulation_steps=config.batch_size // config.micro_batch_size,
        num_generations=config.group_size,
        max_completion_length=config.max_tokens,
        temperature=config.temperature,
        learning_rate=config.learning_rate,
        # Constant, so that the number of steps may be raised later without changing earlier ones.
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=config.warmup_steps,
        beta=config.beta,
        shuffle_dataset=False,  # the schedule is in order already
        logging_steps=1,
        save_strategy="no",  # the callback says when
        report_to=["wandb"] if "wandb" in config.log else "none",
        run_name=Path(config.out).name,
        disable_tqdm=True,
        use_cpu=config.device == "cpu",
        bf16=config.dtype == "bfloat16",
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
    )


def _sinks(config: TrainConfig, first_step: int) -> list[TrainerCallback]:
    if "tensorboard" not in config.log:
        return []
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional
    from transformers.integrations import TensorBoardCallback  # noqa: PLC0415

    # A resumed run takes back what was logged after its checkpoint.
    writer = SummaryWriter(str(Path(config.out) / "tensorboard"), purge_step=first_step or None)
    return [TensorBoardCallback(writer)]

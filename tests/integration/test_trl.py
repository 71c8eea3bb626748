"""Real GRPO steps: TRL's own trainer on a tiny model, with Seer as its rollout."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from seer.engines.local.spec import LocalSpec
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.trainers.trainer_forward import TrainerForward
from seer.trainers.trl import SeerRollout, seer_rollout
from seer.trainers.trl_report import IterationReport
from support.fake_trainer import FakeTrainer
from support.tiny_tokenizer import make_tiny_model_directory

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

PROMPTS = [[{"role": "user", "content": text}] for text in ("one", "two", "three", "four")]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model_directory(tmp_path_factory.mktemp("model"))


@pytest.fixture
def rollout(model_dir: Path) -> Iterator[SeerRollout]:
    spec = LocalSpec(model=str(model_dir), dtype="float32", kv_tokens=2048)
    pool = PoolConfig(host_bytes=2**20)
    with SeerRollout(RolloutConfig(engine=spec, num_instances=1, pool=pool)) as rollout:
        yield rollout


class Watched:
    """A rollout function that keeps what each call came to."""

    def __init__(self, rollout: SeerRollout) -> None:
        self._rollout = rollout
        self.iterations: list[IterationReport] = []
        self.rows: list[dict[str, Any]] = []

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        rows = self._rollout(prompts, trainer)
        assert self._rollout.iteration is not None
        self.iterations.append(self._rollout.iteration)
        self.rows.append(rows)
        return rows


def share_of_vowels(completions: list[Any], **_: object) -> list[float]:
    """A reward that differs within a group."""
    texts = [completion[0]["content"] for completion in completions]
    return [sum(c in "aeiou" for c in text) / (len(text) or 1) for text in texts]


def make_trainer(
    model_dir: Path, out: Path, rollout: Callable[..., Any], *, steps: int, **settings: Any
) -> Any:
    """GRPOTrainer over two groups of four a step, in float32 on the CPU."""
    arguments = trl.GRPOConfig(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=4,
        num_generations=4,
        num_generations_eval=2,
        max_completion_length=16,
        temperature=0.9,
        learning_rate=1e-2,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        shuffle_dataset=False,  # TRL shuffles a later epoch otherwise when it resumes
        report_to="none",
        disable_tqdm=True,
        seed=3,
        **settings,
    )
    data = datasets.Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS])
    return trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(model_dir),
        args=arguments,
        train_dataset=data,
        eval_dataset=data,
        reward_funcs=[share_of_vowels],
        rollout_func=rollout,
    )


def largest_difference(model_dir: Path, rows: dict[str, Any]) -> float:
    """Between the rows' log-probabilities and those of the model as it was before training."""
    before = FakeTrainer(model_dir)
    gaps = []
    for prompt, tokens, logprobs in zip(
        rows["prompt_ids"], rows["completion_ids"], rows["logprobs"], strict=True
    ):
        forward = TrainerForward.of(before, 0.9).logprobs(prompt, [tokens])[0]
        gaps.append(max(abs(a - b) for a, b in zip(logprobs, forward, strict=True)))
    return max(gaps)


def test_each_step_rolls_out_with_the_weights_of_the_step_before(
    model_dir: Path, tmp_path: Path
) -> None:
    """Process instances; on-policy within 1e-4 at both steps; the figures stand in TRL's log."""
    with seer_rollout(model_dir, kv_tokens=1024, drafting="fixed:3", chunk_size=8) as rollout:
        watched = Watched(rollout)
        trainer = make_trainer(model_dir, tmp_path, watched, steps=2, save_strategy="no")
        trainer.train()
    assert [each.weight_version for each in watched.iterations] == [1, 2]
    assert [each.global_step for each in watched.iterations] == [0, 1]
    for each in watched.iterations:
        assert each.difference is not None
        assert each.difference.largest <= 1e-4
    assert largest_difference(model_dir, watched.rows[0]) <= 1e-4
    assert largest_difference(model_dir, watched.rows[1]) > 1e-2
    logged = [log for log in trainer.state.log_history if "loss" in log]
    assert [log["seer/weight_version"] for log in logged] == [1, 2]
    assert all(log["seer/logprob_difference/max"] <= 1e-4 for log in logged)


def test_a_resumed_run_ends_with_the_same_weights(
    model_dir: Path, tmp_path: Path, rollout: SeerRollout
) -> None:
    """Steps 1 to 3 in one go, and step 3 from the checkpoint of step 2: bit for bit."""
    whole = Watched(rollout)
    first = make_trainer(model_dir, tmp_path, whole, steps=3, save_steps=1)
    first.train()
    resumed = Watched(rollout)
    second = make_trainer(model_dir, tmp_path, resumed, steps=3, save_strategy="no")
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert resumed.rows == whole.rows[2:]
    ended, again = first.model.state_dict(), second.model.state_dict()
    assert all(torch.equal(ended[name], again[name]) for name in ended)


def test_trls_own_evaluation_uses_the_rollout(
    model_dir: Path, tmp_path: Path, rollout: SeerRollout
) -> None:
    """num_generations_eval a prompt, from the newest weights; figures under eval_seer/."""
    watched = Watched(rollout)
    trainer = make_trainer(model_dir, tmp_path, watched, steps=1, save_strategy="no")
    trainer.train()
    logs = trainer.evaluate()
    evaluations = [each for each in watched.iterations if not each.is_training]
    assert [each.weight_version for each in evaluations] == [2, 2]
    assert len(watched.rows[-1]["completion_ids"]) == 4
    assert "eval_reward" in {*logs, *trainer.state.log_history[-1]}
    assert trainer.state.log_history[-1]["eval_seer/logprob_difference/max"] <= 1e-4

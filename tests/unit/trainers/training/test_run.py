"""Whole runs with TRL's trainer and a tiny random model: files, resumption, failures."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from seer.errors import InvalidInput, SeerError
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.trainers.training.checkpoints import complete_checkpoints
from seer.trainers.training.config import TaskConfig, TrainConfig
from seer.trainers.training.run import train
from seer.trainers.training.step_row import EvaluationRow, StepRow

pytest.importorskip("trl")
pytest.importorskip("reasoning_gym")

import torch
from safetensors.torch import load_file

from seer.trainers import trl
from seer.trainers.training import grpo, hooks
from support.tiny_tokenizer import make_tiny_model_directory
from unit.trainers.training.fakes import group

REWARDS = Path(__file__).with_name("reward_of_digits.py")
TASK = TaskConfig(name="chain_sum", params={"max_terms": 2}, answer="last_number")
NUM_TOKENS = 6


class Told:
    """A report that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[StepRow] = []
        self.evaluations: list[EvaluationRow] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def step(self, row: StepRow) -> None:
        self.steps.append(row)

    def evaluation(self, row: EvaluationRow) -> None:
        self.evaluations.append(row)


class FakeIteration:
    """What is read of a rollout's report."""

    rollout_s = weight_update_s = check_s = 0.0
    difference = None


class FakeRollout:
    """Seer's place filled without a model: responses of digits, another number in each."""

    iteration = FakeIteration()

    def __init__(
        self, config: Any, *, on_group: Callable[[GroupResult], None], **others: Any
    ) -> None:
        del config, others
        self._on_group = on_group

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        size = trainer.num_generations
        groups = [self._group(place, size) for place in range(len(prompts) // size)]
        for each in groups:
            self._on_group(each)
        rows = [completion for each in groups for completion in each.completions]
        return {
            "prompt_ids": [[5, 6] for _ in rows],
            "completion_ids": [row.output_token_ids for row in rows],
            "logprobs": None,
        }

    def sample(
        self,
        prompts: Sequence[PromptItem],
        trainer: Any,
        *,
        group_size: int,
        sampling: Any,
        on_group: Callable[[GroupResult], None],
    ) -> None:
        del trainer, sampling
        for place in range(len(prompts)):
            on_group(self._group(place, group_size))

    def _group(self, place: int, size: int) -> GroupResult:
        return group(place, *("1" * member + "a" * (NUM_TOKENS - member) for member in range(size)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model_directory(tmp_path_factory.mktemp("model")))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(out: Path, **settings: Any) -> TrainConfig:
    given = {
        "tasks": [TASK],
        "num_items": 8,
        "held_out_items": 4,
        "steps": 2,
        "group_size": 4,
        "batch_size": 8,
        "micro_batch_size": 4,
        "max_tokens": NUM_TOKENS,
        "learning_rate": 1e-3,
        "instances": 1,
        "kv_tokens": 1024,
        "pool_bytes": 0,
        "drafting": "off",
        "reward_function": f"{REWARDS}:share_of_digits",
        "reward_workers": 1,
        "checkpoint_every": 1,
        "eval_every": 1,
        "out": str(out),
    }
    return TrainConfig(**given | settings)


def lines(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def weights(out: Path) -> bytes:
    return (out / "model" / "model.safetensors").read_bytes()


def test_bfloat16_trains_float32_weights(tmp_path: Path, model: str) -> None:
    """A learning rate far below the resolution of bfloat16 still moves the weights."""
    out = tmp_path / "out"
    told = Told()
    train(config(out, dtype="bfloat16", learning_rate=1e-6, steps=1), model, told)
    before = load_file(Path(model) / "model.safetensors")
    after = load_file(out / "model" / "model.safetensors")
    assert {tensor.dtype for tensor in after.values()} == {torch.float32}
    assert any(row.grad_norm > 0 for row in told.steps)
    assert any(not torch.equal(after[name], before[name]) for name in before)


def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path, model: str) -> None:
    """Real rollouts: files of a run; killed after a checkpoint and resumed, bit for bit equal."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    told = Told()
    assert train(config(whole), model, told) == whole / "model"

    assert [row.step for row in told.steps] == [1, 2]
    assert [row.step for row in told.evaluations] == [0, 1, 2]
    assert all(0 < row.max_logprob_delta < 1e-4 for row in told.steps if row.max_logprob_delta)
    assert any(row.grad_norm > 0 for row in told.steps)
    metrics, samples = lines(whole / "metrics.jsonl"), lines(whole / "samples.jsonl")
    assert [row["step"] for row in metrics] == [1, 2]
    assert [row["step"] for row in samples] == [1] * 8 + [2] * 8
    for row in metrics:
        rewards = [each["reward"] for each in samples if each["step"] == row["step"]]
        assert row["reward"] == pytest.approx(sum(rewards) / 8)
    assert [each.step for each in complete_checkpoints(whole)] == [1, 2]

    shutil.copytree(whole, resumed)  # as a kill before the second checkpoint leaves it
    (resumed / "checkpoint-2" / "seer_complete.json").unlink()
    shutil.rmtree(resumed / "model")
    train(config(resumed, resume=True), model, Told())
    assert weights(resumed) == weights(whole)
    assert lines(resumed / "samples.jsonl") == samples
    assert [row["step"] for row in lines(resumed / "evaluations.jsonl")] == [0, 1, 2]


class TestWithoutRollout:
    @pytest.fixture(autouse=True)
    def _fake_rollout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trl, "SeerRollout", FakeRollout)

    def test_a_finished_run_may_be_prolonged(self, tmp_path: Path, model: str) -> None:
        """Two steps and one more are three steps; one that is done is left as it is."""
        whole, prolonged = tmp_path / "whole", tmp_path / "prolonged"
        train(config(whole, steps=3, held_out_items=0), model, Told())
        train(config(prolonged, steps=2, held_out_items=0), model, Told())
        train(config(prolonged, steps=3, held_out_items=0, resume=True), model, Told())
        assert weights(prolonged) == weights(whole)
        train(config(prolonged, steps=3, held_out_items=0, resume=True), model, Told())
        assert weights(prolonged) == weights(whole)

    def test_a_full_disk_leaves_the_last_good_checkpoint(
        self, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The run ends with what could not be written; the part of it is removed."""

        def full(directory: Path, step: int, config: TrainConfig) -> None:
            if step == 2:
                raise OSError(28, "No space left on device")
            mark_complete(directory, step, config)

        mark_complete = hooks.mark_complete
        monkeypatch.setattr(hooks, "mark_complete", full)
        with pytest.raises(SeerError, match=r"step 2.*No space left.*last good one is of step 1"):
            train(config(tmp_path), model, Told())
        assert [each.step for each in complete_checkpoints(tmp_path)] == [1]
        assert not (tmp_path / "checkpoint-2").exists()

    def test_a_reward_that_is_no_number_ends_the_run(self, tmp_path: Path, model: str) -> None:
        """NaN is refused with its sample."""
        settings = config(tmp_path, reward_function=f"{REWARDS}:not_a_number")
        with pytest.raises(InvalidInput, match=r"reward: got 'nan'.*item chain_sum-.* of step 1"):
            train(settings, model, Told())

    def test_dealing_responses_by_length_changes_no_update(
        self, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The weights are those of TRL's own micro-batches, up to rounding."""
        train(config(tmp_path / "by_length", micro_batch_size=2), model, Told())
        monkeypatch.setattr(grpo, "by_length", lambda batches: batches)
        train(config(tmp_path / "as_dealt", micro_batch_size=2), model, Told())
        ours, trls = (
            load_file(tmp_path / name / "model" / "model.safetensors")
            for name in ("by_length", "as_dealt")
        )
        for name, tensor in ours.items():
            torch.testing.assert_close(tensor, trls[name], rtol=1e-4, atol=1e-5)

    def test_logs_and_limits(self, tmp_path: Path, model: str) -> None:
        """TensorBoard's events, the samples asked for only, and a KL term."""
        pytest.importorskip("tensorboard")
        settings = config(tmp_path, steps=1, sample_prompts=1, log=["tensorboard"], beta=0.1)
        train(settings, model, Told())
        assert len(lines(tmp_path / "samples.jsonl")) == 4
        assert list((tmp_path / "tensorboard").iterdir())

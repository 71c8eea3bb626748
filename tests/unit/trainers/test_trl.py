"""SeerRollout over a real tiny model in this process, and a trainer of which only we know."""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch

from seer.engines.local.spec import LocalSpec
from seer.engines.scripted import ScriptedSpec
from seer.errors import EngineFailure, InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.results import GroupResult
from seer.trainers.on_policy import OffPolicy, OnPolicyCheck
from seer.trainers.trl import SeerRollout, seer_rollout
from seer.types import SamplingParams
from support.fake_trainer import FakeTrainer
from support.tiny_models import VOCAB, make_tiny_model
from support.tiny_tokenizer import make_tiny_model_directory

PROMPTS = ["one"] * 4 + ["two"] * 4
POOL = PoolConfig(host_bytes=2**20)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model_directory(tmp_path_factory.mktemp("model"))


@pytest.fixture
def trainer(model_dir: Path) -> FakeTrainer:
    return FakeTrainer(model_dir)


@pytest.fixture
def config(model_dir: Path) -> RolloutConfig:
    spec = LocalSpec(model=str(model_dir), dtype="float32", kv_tokens=2048)
    return RolloutConfig(engine=spec, num_instances=1, chunk_size=8, pool=POOL)


@pytest.fixture
def rollout(config: RolloutConfig, tmp_path: Path) -> Iterator[SeerRollout]:
    with SeerRollout(config, weights_dir=tmp_path) as rollout:
        yield rollout


def test_one_completion_a_row_in_the_order_asked(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """Rows of ids and log-probabilities of equal length, prompts encoded by the tokenizer."""
    rows = rollout(PROMPTS, trainer)
    assert [trainer.processing_class.decode(ids) for ids in rows["prompt_ids"]] == PROMPTS
    lengths = [len(ids) for ids in rows["completion_ids"]]
    assert [len(row) for row in rows["logprobs"]] == lengths
    assert all(1 <= length <= 12 for length in lengths)
    assert len({tuple(ids) for ids in rows["completion_ids"]}) > 4


def test_messages_go_through_the_chat_template(rollout: SeerRollout, trainer: FakeTrainer) -> None:
    """Text stays text, messages are templated as TRL does it."""
    messages = [{"role": "user", "content": "one"}]
    rows = rollout([messages] * 4, trainer)
    assert trainer.processing_class.decode(rows["prompt_ids"][0]).startswith("one")
    assert len(rows["prompt_ids"][0]) == len("one") + 1  # the template ends the turn


def test_a_response_of_nothing_but_its_end_is_no_empty_row(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """TRL crashes on empty completions; the end token counts as one."""
    trainer.eos_token_ids = list(range(VOCAB))
    assert [len(ids) for ids in rollout(PROMPTS, trainer)["completion_ids"]] == [1] * 8


def test_the_trainers_own_forward_pass_agrees(rollout: SeerRollout, trainer: FakeTrainer) -> None:
    """On-policy within 1e-4, at a temperature, before and after an optimiser step; and logged."""
    trainer.temperature = 0.7
    for _ in range(2):
        rollout(PROMPTS, trainer)
        assert rollout.iteration is not None
        assert rollout.iteration.difference is not None
        assert rollout.iteration.difference.largest <= 1e-4
        assert trainer.logged["seer/logprob_difference/max"] <= 1e-4
        assert rollout.iteration.difference.num_tokens == rollout.iteration.output_tokens
        trainer.step()


def test_weights_are_sent_when_they_have_changed_and_only_then(
    rollout: SeerRollout, trainer: FakeTrainer, tmp_path: Path
) -> None:
    """Two calls at one step share a version; a step makes the next, and the old file goes."""
    versions, updates = [], []
    for steps in (0, 0, 1):
        for _ in range(steps):
            trainer.step()
        rollout(PROMPTS, trainer)
        assert rollout.iteration is not None
        versions.append(rollout.iteration.weight_version)
        updates.append(rollout.iteration.weight_update_s > 0)
    assert (versions, updates) == ([1, 1, 2], [True, False, True])
    assert [path.name for path in tmp_path.glob("*/version-*")] == ["version-2"]


def test_weights_put_in_place_without_a_step_are_sent_too(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """As when the best checkpoint is loaded at the end: global_step stands still."""
    rollout(PROMPTS, trainer)
    trainer.step()
    trainer.state.global_step = 0
    rollout(PROMPTS, trainer)
    assert rollout.iteration is not None
    assert rollout.iteration.weight_version == 2


def test_stale_weights_end_the_run(
    rollout: SeerRollout, trainer: FakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an update were missed, the comparison would tell."""
    rollout(PROMPTS, trainer)
    trainer.step()
    monkeypatch.setattr(rollout._session, "update", lambda _: 0.0)
    with pytest.raises(OffPolicy, match="log-probabilities of rollout and trainer differ"):
        rollout(PROMPTS, trainer)


def test_the_trainers_own_rounding_does_not_end_the_run(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """Where its float32 pass is off by more than the limit, its model in float64 decides."""

    def round_badly(_module: object, _inputs: object, logits: torch.Tensor) -> torch.Tensor:
        is_float32 = logits.dtype == torch.float32
        return logits * (1 + 1e-3) if is_float32 else logits

    trainer.model.lm_head.register_forward_hook(round_badly)
    rollout(PROMPTS, trainer)
    assert rollout.iteration is not None
    difference = rollout.iteration.difference
    assert difference is not None
    assert difference.exact is not None
    assert difference.exact.largest < 1e-4 < difference.largest
    assert difference.exact.num_tokens <= difference.num_tokens


def test_the_tolerance_is_the_users(config: RolloutConfig, trainer: FakeTrainer) -> None:
    """Even rounding ends a run whose tolerance is 0; with none to keep it is reported alone."""
    with (
        SeerRollout(config, check=OnPolicyCheck(tolerance=0)) as strict,
        pytest.raises(OffPolicy),
    ):
        strict(PROMPTS, trainer)
    with SeerRollout(config, check=OnPolicyCheck(tolerance=math.inf, share=0.25)) as loose:
        loose(PROMPTS, trainer)
        assert loose.iteration is not None
        assert loose.iteration.difference is not None
        assert loose.iteration.difference.num_tokens < loose.iteration.output_tokens


def test_a_bfloat16_engine_is_compared_without_a_limit(
    config: RolloutConfig, trainer: FakeTrainer
) -> None:
    """Rounding of bfloat16 is reported, not refused."""
    spec = msgspec.structs.replace(config.engine, dtype="bfloat16")  # type: ignore[type-var]
    with SeerRollout(msgspec.structs.replace(config, engine=spec)) as rollout:
        rollout(PROMPTS, trainer)
        assert trainer.logged["seer/logprob_difference/max"] > 1e-4


def test_dropout_is_off_in_the_comparison_and_on_again_after_it(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """The policy is the model without dropout; the trainer gets its modes back."""
    trainer.model.model.layers[0].eval()
    for layer in trainer.model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    rollout(PROMPTS, trainer)
    assert trainer.logged["seer/logprob_difference/max"] <= 1e-4
    assert trainer.model.training
    assert not trainer.model.model.layers[0].training


def test_a_resumed_run_draws_what_an_uninterrupted_one_does(
    config: RolloutConfig, trainer: FakeTrainer
) -> None:
    """The third step alone, in a new session, gives the third step's rows."""
    with SeerRollout(config) as whole:
        for _ in range(3):
            rows = whole(PROMPTS, trainer)
            trainer.step()
    again = FakeTrainer(Path(config.engine.describe().model))
    again.step()
    again.step()
    with SeerRollout(config) as resumed:
        assert resumed(PROMPTS, again) == rows


def test_equal_prompts_of_a_batch_get_draws_of_their_own(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """Two groups of one prompt are not copies of each other."""
    rows = rollout(["one"] * 8, trainer)["completion_ids"]
    assert rows[:4] != rows[4:]


def test_evaluation_has_its_own_group_size(rollout: SeerRollout, trainer: FakeTrainer) -> None:
    """`num_generations_eval` counts when the model is not in training mode."""
    trainer.model.eval()
    assert len(rollout(["one", "one", "two", "two"], trainer)["completion_ids"]) == 4
    assert rollout.iteration is not None
    assert not rollout.iteration.is_training


def test_groups_are_handed_on_as_they_finish(config: RolloutConfig, trainer: FakeTrainer) -> None:
    """Each group once, with its place in the batch and its prompt as TRL gave it."""
    seen: list[GroupResult] = []
    with SeerRollout(config, on_group=seen.append) as rollout:
        rows = rollout(PROMPTS, trainer)["completion_ids"]
    by_place = {group.prompt_id: group for group in seen}
    assert {place: group.metadata["prompt"] for place, group in by_place.items()} == {
        "0": "one",
        "1": "two",
    }
    assert [c.output_token_ids for c in by_place["1"].completions] == rows[4:]


def test_sampling_outside_the_trainers_own_evaluation(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """Greedy responses of the newest weights, as a held-out evaluation takes them."""
    greedy = SamplingParams(temperature=0, max_tokens=6)
    before = rollout.sample(["one", "two"], trainer, group_size=1, sampling=greedy)
    trainer.step()
    after = rollout.sample(["one", "two"], trainer, group_size=1, sampling=greedy)
    assert [group.prompt_id for group in after] == ["0", "1"]
    assert before[0].completions[0].output_token_ids != after[0].completions[0].output_token_ids


def test_closing_is_idempotent_and_a_later_call_starts_again(
    rollout: SeerRollout, trainer: FakeTrainer, tmp_path: Path
) -> None:
    """Nothing is left of the old session; the new one gets the weights that the trainer has."""
    rollout(PROMPTS, trainer)
    rollout.close()
    rollout.close()
    assert list(tmp_path.iterdir()) == []
    trainer.step()
    rollout(PROMPTS, trainer)
    assert trainer.logged["seer/logprob_difference/max"] <= 1e-4


def test_filters_need_raw_logprobs(config: RolloutConfig, trainer: FakeTrainer) -> None:
    """What TRL cannot compute is not compared; raw log-probabilities are, at temperature 1."""
    trainer.top_p, trainer.temperature = 0.9, 0.8
    with SeerRollout(config) as rollout, pytest.raises(InvalidInput, match='logprobs="raw"'):
        rollout(PROMPTS, trainer)
    spec = msgspec.structs.replace(config.engine, logprobs="raw")  # type: ignore[type-var]
    with SeerRollout(msgspec.structs.replace(config, engine=spec)) as rollout:
        assert rollout(PROMPTS, trainer)["logprobs"] is None
        assert trainer.logged["seer/logprob_difference/max"] <= 1e-4


def test_any_engine_will_do_without_the_check(trainer: FakeTrainer, tmp_path: Path) -> None:
    """The scripted engine takes the weights and gives rows; nothing is compared."""
    engine = ScriptedSpec(vocab_size=VOCAB, min_length=2, max_length=10)
    config = RolloutConfig(engine=engine, pool=POOL)
    check = OnPolicyCheck(share=0)
    with SeerRollout(config, check=check, weights_dir=tmp_path) as rollout:
        assert len(rollout(PROMPTS, trainer)["completion_ids"]) == 8
        assert rollout.iteration is not None
        assert rollout.iteration.difference is None


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("num_generations", 3, "multiple of num_generations"),
        ("num_generations", 8, "rows 0 and 4 differ"),
        ("tools", [print], "tools"),
        ("repetition_penalty", 1.1, "repetition_penalty"),
        ("max_completion_length", None, "max_completion_length"),
        ("temperature", 0.0, "temperature"),
        ("max_completion_length", 1000, "prompt 0"),
    ],
)
def test_settings_that_cannot_be_served_are_named(
    rollout: SeerRollout, trainer: FakeTrainer, setting: str, value: object, message: str
) -> None:
    """InvalidInput with the setting, or the prompt that does not fit the context."""
    setattr(trainer, setting, value)
    with pytest.raises(InvalidInput, match=message):
        rollout(PROMPTS, trainer)


def test_more_than_one_process_is_refused(rollout: SeerRollout, trainer: FakeTrainer) -> None:
    """Distributed trainers get a clear answer instead of a rollout each."""
    trainer.accelerator.num_processes = 2
    with pytest.raises(InvalidInput, match="num_processes: got 2"):
        rollout(PROMPTS, trainer)


def test_sampling_of_ones_own_must_have_the_trainers_temperature(
    config: RolloutConfig, trainer: FakeTrainer
) -> None:
    """TRL divides its logits by its own temperature: another one is off-policy."""
    sampling = SamplingParams(temperature=0.5)
    with (
        SeerRollout(config, sampling=sampling) as rollout,
        pytest.raises(InvalidInput, match=r"sampling\.temperature: got 0\.5"),
    ):
        rollout(PROMPTS, trainer)


def test_generation_kwargs_are_refused(rollout: SeerRollout, trainer: FakeTrainer) -> None:
    """They would be ignored silently."""
    trainer.args.generation_kwargs = {"typical_p": 0.9}
    with pytest.raises(InvalidInput, match="generation_kwargs"):
        rollout(PROMPTS, trainer)


def test_another_model_than_the_engines_is_refused(
    rollout: SeerRollout, trainer: FakeTrainer, tmp_path: Path
) -> None:
    """Family and shape are compared before any weight is sent."""
    trainer.model = make_tiny_model("qwen3", tmp_path / "other")
    trainer.model.train()
    with pytest.raises(InvalidInput, match="model_type is 'qwen3'; this one's is 'llama'"):
        rollout(PROMPTS, trainer)


def test_a_tokenizer_beyond_the_vocabulary_is_refused(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """Tokens that the model has no row for."""
    trainer.processing_class.add_tokens([f"<more-{i}>" for i in range(VOCAB)])
    with pytest.raises(InvalidInput, match="processing_class"):
        rollout(PROMPTS, trainer)


def test_messages_without_a_template_are_refused(
    rollout: SeerRollout, trainer: FakeTrainer
) -> None:
    """The tokenizer must have a chat template for message lists."""
    trainer.processing_class.chat_template = None
    with pytest.raises(InvalidInput, match="no chat template"):
        rollout([[{"role": "user", "content": "one"}]] * 4, trainer)


def test_peft_adapters_are_refused(rollout: SeerRollout, trainer: FakeTrainer) -> None:
    """Their weights are no weights of the engine's model."""
    wrapped = torch.nn.Module()
    wrapped.base_model = torch.nn.Module()
    wrapped.base_model.model = trainer.model
    wrapped.config = trainer.model.config
    trainer.model = wrapped
    with pytest.raises(InvalidInput, match="PEFT"):
        rollout(PROMPTS, trainer)


def test_a_rollout_never_mixes_versions(rollout: SeerRollout, trainer: FakeTrainer) -> None:
    """Weights cannot change while responses are generated: the rollout itself refuses."""

    def update(_: GroupResult) -> None:
        trainer.step()
        rollout._session.update(trainer)

    rollout._on_group = update
    with pytest.raises(EngineFailure, match="while a rollout is in progress"):
        rollout(PROMPTS, trainer)


def test_the_short_constructor_names_bad_settings() -> None:
    """What a user gives is checked where it is given."""
    with pytest.raises(InvalidInput, match="dtype"):
        seer_rollout("anywhere", dtype="float64")
    with pytest.raises(InvalidInput, match="policy"):
        seer_rollout("anywhere", policy="none-such")

"""`seer train`: settings from file and flags, bad input, what the console shows."""

import io
import re
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from seer.cli.main import run
from seer.cli.train_display import open_train_display
from seer.cli.train_settings import load_train_config
from seer.errors import InvalidInput
from seer.trainers.training.config import TaskConfig, TrainConfig
from seer.trainers.training.step_row import EvaluationRow, StepRow

ROOT = Path(__file__).parents[3]
TASKS = '[[tasks]]\nname = "chain_sum"\nparams = {max_terms = 2}\n'
SETTINGS = {field.name: field.default for field in msgspec.structs.fields(TrainConfig)}


def toml(directory: Path, text: str) -> Path:
    path = directory / "train.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    """A value is taken from the first of flags, file and defaults that has it."""
    path = toml(tmp_path, f"seed = 4\nsteps = 9\n{TASKS}")
    config = load_train_config(path, {"seed": "5", "steps": None, "log": ["tensorboard"]})
    assert (config.seed, config.steps, config.group_size) == (5, 9, 8)
    assert config.log == ["tensorboard"]
    assert config.tasks == [TaskConfig(name="chain_sum", params={"max_terms": 2})]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("steps = 1", "tasks: got None; allowed: at least one table"),
        ("tasks = []", "tasks: got"),
        ("tasks = 3", "tasks: got 3; allowed: tables with name"),
        ('[[tasks]]\nnme = "chain_sum"', "tasks: got.*unknown field `nme`"),
        ('[[tasks]]\nname = "chain_sum"\nweight = -1', r"tasks\.weight: got -1\.0"),
        (f"stepz = 3\n{TASKS}", "config: got 'stepz'; allowed keys: tasks"),
        (f'steps = "many"\n{TASKS}', "steps: got 'many'; allowed: a whole number"),
        (f"batch_size = 30\n{TASKS}", "batch_size: got 30; allowed: a multiple of group_size"),
        (
            f'policy = "interleaved"\nchunk_size = 8\n{TASKS}',
            "chunk_size: got 8; allowed with a policy that divides",
        ),
        ("[[", "config: got .*a TOML file"),
    ],
)
def test_bad_file(tmp_path: Path, text: str, named: str) -> None:
    """Each bad value of a file is named with what is allowed."""
    with pytest.raises(InvalidInput, match=named):
        load_train_config(toml(tmp_path, text), {})


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(InvalidInput, match=r"config: got '.*none\.toml'"):
        load_train_config(tmp_path / "none.toml", {})


def test_the_baseline_runs_without_what_the_file_divides(tmp_path: Path) -> None:
    """One flag turns a file's run into its baseline."""
    path = toml(tmp_path, f'policy = "divided"\nchunk_size = 8\n{TASKS}')
    assert load_train_config(path, {"baseline": True}).rollout_policy == "group_round_robin"


class TestRefusedBeforeTheModelIsLoaded:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("trl")
        pytest.importorskip("reasoning_gym")

    def refused(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, *flags: str, tasks: str = TASKS
    ) -> str:
        """The one line on stderr that the command ends with."""
        from support.tiny_tokenizer import make_tiny_model_directory  # noqa: PLC0415 - torch

        model = str(make_tiny_model_directory(tmp_path / "model"))
        path = toml(tmp_path, f"kv_tokens = 1024\nmax_tokens = 32\n{tasks}")
        out = str(tmp_path / "out")
        capsys.readouterr()
        assert run(["train", str(path), "--model", model, "--out", out, *flags]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    def test_unknown_task(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """A misspelt task is refused with tasks of a similar name."""
        line = self.refused(capsys, tmp_path, tasks='[[tasks]]\nname = "chain_sums"')
        assert re.search("tasks: got 'chain_sums'.*chain_sum", line)

    @pytest.mark.parametrize(
        ("flags", "named"),
        [
            (["--num-items", "0"], "num_items: got 0"),
            (["--dtype", "float16"], "dtype: got 'float16'"),
            (["--max-tokens", "600"], "max_tokens: got 600"),
            (["--reward-function", "none.py:score"], "reward_function: got 'none.py:score'"),
            (["--resume"], "resume: got"),
            (["--seed", "-1"], "seed: got -1"),
        ],
    )
    def test_bad_flag(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, flags: list[str], named: str
    ) -> None:
        """Each is named with its value and what is allowed."""
        assert named in self.refused(capsys, tmp_path, *flags)


STEP = StepRow(
    step=3,
    reward=0.25,
    reward_by_task={"chain_sum": 0.25},
    num_reward_errors=2,
    num_tokens=640,
    mean_tokens=20.0,
    tokens_per_s=160.0,
    max_logprob_delta=2e-6,
    max_logprob_delta_float64=None,
    total_s=8.0,
    rollout_s=4.0,
    reward_wait_s=0.0,
    train_s=2.0,
    weight_update_s=1.0,
    check_s=1.0,
    other_s=0.0,
    loss=0.1,
    grad_norm=1.0,
    learning_rate=1e-5,
)
EVALUATION = EvaluationRow(
    step=3,
    accuracy=0.5,
    accuracy_by_task={"chain_sum": 0.5},
    num_items=200,
    mean_tokens=20.0,
    seconds=9.0,
)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_line_for_each_step(is_terminal: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """On a terminal and in a log: reward, speed, the split, the check, and failed rewards."""
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=200)
    config = TrainConfig(tasks=[TaskConfig(name="chain_sum")], steps=5)
    with open_train_display(console, config) as display:
        display.say("loading")
        display.step(STEP)
        display.evaluation(EVALUATION)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "seer: loading" in shown
    assert "reward 0.250  20 tokens, 160/s  8.0 s: rollout 50% reward wait 0% train 25%" in shown
    assert "|Δ log-prob| 2.0e-06  2 rewards failed" in shown
    assert "accuracy 0.500 on 200 held-out items (chain_sum 0.500)" in shown
    assert ("3/5" in shown) == is_terminal


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_documented(name: str) -> None:
    """Each setting has its line, with its default where that is a name or a plain number."""
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
    default = SETTINGS[name]
    is_shown = name != "pool_bytes" and not isinstance(default, bool)
    if is_shown and isinstance(default, str | int | float):
        assert f"| {default} |" in row


@pytest.mark.parametrize("path", [*ROOT.glob("examples/train_*.toml")], ids=lambda path: path.name)
def test_examples_are_allowed(path: Path) -> None:
    """The example files are read without complaint."""
    assert load_train_config(path, {}).tasks

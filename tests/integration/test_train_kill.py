"""`seer train` killed by SIGKILL in each of its phases, and resumed each time.

One run is killed in step after step, another phase in each, and must end with what the run that
nobody killed ends with, byte for byte. Processes, rollouts and trainer are real, the model is tiny.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seer.trainers.training.checkpoints import complete_checkpoints
from support import killed_train
from support.tiny_tokenizer import make_tiny_model_directory

pytest.importorskip("trl")
pytest.importorskip("reasoning_gym")

KILLS = (("rollout", 2), ("reward", 3), ("training", 4), ("checkpoint", 5), ("marker", 5))
"""Phase, and the step in which it is killed."""
STEPS = 6
SIZES = {"steps": STEPS, "batch_size": 8}
REWARDS_BEFORE = 3
"""Rewards that the step has computed when it is killed; others are left."""
CONFIG = """
model = "{model}"
out = "{out}"
reward_function = "{rewards}:share_of_digits"
steps = {steps}
num_items = 16
held_out_items = 0
group_size = 4
batch_size = {batch_size}
micro_batch_size = 4
max_tokens = 12
chunk_size = 2
learning_rate = 1e-3
instances = 1
kv_tokens = 1024
pool_bytes = 0
drafting = "off"
reward_workers = 1
checkpoint_every = 1
eval_every = 0

[[tasks]]
name = "chain_sum"
params = {{ max_terms = 2 }}
answer = "last_number"
"""


class Run:
    """A run of the command in a directory."""

    def __init__(self, directory: Path, name: str, model: Path) -> None:
        self.out = directory / name
        self.rewards = directory / "rewards.py"
        self.config = directory / f"{name}.toml"
        self.log = directory / f"{name}.log"
        text = CONFIG.format(model=model, out=self.out, rewards=self.rewards, **SIZES)
        self.config.write_text(text)

    def train(self, *before: str, resume: bool = False) -> int:
        """Exit status of `seer train`; `before` says where it is to kill itself."""
        program = [killed_train.__file__, *before] if before else ["-m", "seer.cli.main"]
        flags = ["--resume"] if resume else []
        command = [sys.executable, *program, "train", str(self.config), *flags]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        # Into a file: a pipe would be waited for until the last child of a killed run has ended.
        with self.log.open("w") as log:
            ended = subprocess.run(command, stdout=log, stderr=log, check=False, env=env)
        return ended.returncode

    def kill(self, phase: str, step: int) -> None:
        """Train, to be killed; goes on from an earlier kill."""
        armed = self.rewards.with_name("armed")
        if phase == "reward":
            done = self.steps()[-1]
            armed.write_text(str((step - 1 - done) * SIZES["batch_size"] + REWARDS_BEFORE))
        ended = self.train(phase, str(step), resume=self.out.exists())
        armed.unlink(missing_ok=True)
        assert ended == -signal.SIGKILL, self.log.read_text()

    def steps(self) -> list[int]:
        """Steps with a complete checkpoint."""
        return [each.step for each in complete_checkpoints(self.out)]

    def read(self, name: str) -> bytes:
        return (self.out / name).read_bytes()


@pytest.mark.timeout(900)  # seven runs of the command
def test_killed_in_each_phase_and_resumed(tmp_path: Path) -> None:
    """Rollout, reward, training, checkpoint, its marker: same weights, samples and steps."""
    model = make_tiny_model_directory(tmp_path / "model")
    shutil.copy(Path(__file__).with_name("reward_that_kills.py"), tmp_path / "rewards.py")
    whole, killed = Run(tmp_path, "whole", model), Run(tmp_path, "killed", model)
    assert whole.train() == 0, whole.log.read_text()

    for phase, step in KILLS:
        killed.kill(phase, step)
        assert killed.steps()[-1] == step - 1, phase
    assert killed.train(resume=True) == 0, killed.log.read_text()

    for name in ("model/model.safetensors", "samples.jsonl"):
        assert killed.read(name) == whole.read(name), name
    assert killed.read("metrics.jsonl").count(b"\n") == STEPS
    first, last = whole.out / "checkpoint-5", whole.out / "model"
    assert (first / "model.safetensors").read_bytes() != (last / "model.safetensors").read_bytes()

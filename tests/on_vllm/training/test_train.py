"""`seer train --engine vllm`: TRL's trainer on vLLM's rollouts, its weights back in vLLM."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm")
pytest.importorskip("trl")
pytest.importorskip("reasoning_gym")

from safetensors.torch import load_file

from unit.trainers.training import reward_of_digits

STEPS = 3
CONFIG = """
engine = "vllm"
model = "{model}"
out = "{out}"
steps = {steps}
num_items = 16
held_out_items = 4
eval_every = 0
group_size = 4
batch_size = 8
micro_batch_size = 4
max_tokens = 40
chunk_size = 32
learning_rate = 1e-3
reward_function = "{rewards}:share_of_digits"
instances = 1
kv_tokens = 1024
drafting = "fixed:2"

[[tasks]]
name = "chain_sum"
params = {{ max_terms = 2 }}
answer = "last_number"
"""


@pytest.mark.timeout(600)  # vLLM's start takes up to 100 s on a busy machine
def test_each_step_trains_on_what_the_new_weights_say(tmp_path: Path, tiny_model: Path) -> None:
    """Log-probabilities of every step are the trainer's own, with weights that have moved."""
    out, config = tmp_path / "out", tmp_path / "train.toml"
    rewards = reward_of_digits.__file__
    config.write_text(CONFIG.format(model=tiny_model, out=out, rewards=rewards, steps=STEPS))
    command = [sys.executable, "-m", "seer.cli.main", "train", str(config)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    log = tmp_path / "log"
    with log.open("w") as file:
        ended = subprocess.run(command, stdout=file, stderr=file, check=False, env=env)
    assert ended.returncode == 0, log.read_text()

    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    for row in rows:  # where float32 itself rounds more than the limit, float64 decides
        assert (row["max_logprob_delta_float64"] or row["max_logprob_delta"]) <= 1e-4
    before = load_file(tiny_model / "model.safetensors")
    after = load_file(out / "model/model.safetensors")
    moved = max(float((after[name] - weight).abs().max()) for name, weight in before.items())
    assert moved > 1e-3

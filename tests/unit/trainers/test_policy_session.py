"""How a session ends when nobody closes it."""

import subprocess
import sys
from pathlib import Path

from seer.subprocesses import child_environment

SCRIPT = """
import sys
from pathlib import Path
from seer.engines.process import ProcessSpec
from seer.engines.scripted import ScriptedSpec
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.trainers.on_policy import OnPolicyCheck
from seer.trainers.trl import SeerRollout
from support.fake_trainer import FakeTrainer
from support.tiny_tokenizer import make_tiny_model_directory

def train():
    trainer = FakeTrainer(make_tiny_model_directory(Path(sys.argv[1])))
    engine = ProcessSpec(inner=ScriptedSpec(vocab_size=160))
    config = RolloutConfig(engine=engine, pool=PoolConfig(host_bytes=2**20))
    check = OnPolicyCheck(share=0)
    rollout = SeerRollout(config, check=check, weights_dir=Path(sys.argv[2]))
    print(len(rollout(["one"] * 4, trainer)["completion_ids"]))

train()
"""


def test_a_script_that_closes_nothing_ends_cleanly(tmp_path: Path) -> None:
    """Instances and weights go with the interpreter, without a word on standard error."""
    weights = tmp_path / "weights"
    weights.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "model"), str(weights)],
        env=child_environment({"HF_HUB_DISABLE_PROGRESS_BARS": "1"}),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "4\n"
    assert "Traceback" not in done.stderr
    assert "pending" not in done.stderr
    assert list(weights.iterdir()) == []

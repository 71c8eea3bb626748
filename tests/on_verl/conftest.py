"""What the tests on verl share: Ray, a tiny model, verl's own configuration, fake servers."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl")

import ray
import verl
from hydra import compose, initialize_config_dir

from support.tiny_tokenizer import make_tiny_model_directory

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(":"),
    "TOKENIZERS_PARALLELISM": "false",
}
ROLLOUT = "actor_rollout_ref.rollout"
ROUTER = Path(__file__).parents[2] / "src/seer/trainers/verl/router.yaml"
SEER_KEYS = (
    f"+{ROLLOUT}.agent.agent_loop_manager_class=seer.trainers.verl.manager.SeerAgentLoopManager",
    f"{ROLLOUT}.router_config_path={ROUTER}",
)

MakeConfig = Callable[..., Any]


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """One for all tests: it takes seconds to start."""
    ray.init(
        num_cpus=8,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": ENVIRONMENT},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random llama with a tokenizer of characters."""
    return make_tiny_model_directory(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def make_config(model: Path) -> MakeConfig:
    """Verl's trainer configuration over the tiny model, with overrides in hydra's syntax."""

    def make(*overrides: str) -> Any:
        directory = Path(verl.__file__).parent / "trainer" / "config"
        with initialize_config_dir(config_dir=str(directory), version_base=None):
            return compose("ppo_trainer", [*_base(model), *overrides])

    return make


def _base(model: Path) -> list[str]:
    return [
        f"actor_rollout_ref.model.path={model}",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        f"{ROLLOUT}.name=vllm",
        f"{ROLLOUT}.tensor_model_parallel_size=1",
        f"{ROLLOUT}.dtype=float32",
        f"{ROLLOUT}.n=4",
        f"{ROLLOUT}.agent.num_workers=1",
        "data.max_prompt_length=32",
        "data.max_response_length=32",
        "trainer.use_v1=false",
        "trainer.device=cpu",
        "trainer.n_gpus_per_node=1",
    ]

"""SkyRL's experiment with a generator that generates through Seer.

The interface is that of SkyRL 0.3.0 (NovaSky-AI/SkyRL at a9564572eb8e91076be43c1bd5e4615e3de17265,
files `skyrl/train/entrypoints/main_base.py`, `skyrl/train/generators/base.py` and
`skyrl/backends/skyrl_train/inference_servers/remote_inference_client.py`). SkyRL keeps its vLLM
servers, environments and weight transfer; Seer's controller decides which server runs which chunk.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.generators.base import GeneratorInput, GeneratorInterface, GeneratorOutput

from seer.errors import InvalidInput
from seer.trainers.borrowed.rewards import check_reward
from seer.trainers.borrowed.spec import BorrowedSettings
from seer.trainers.skyrl.client import SeerClient

DEFAULTS = BorrowedSettings()


@dataclass
class SeerKeys:
    """`seer.policy=...` and so on; meanings and checks are BorrowedSettings'."""

    policy: str = DEFAULTS.policy
    chunk_size: int = DEFAULTS.chunk_size
    kv_tokens: int | None = DEFAULTS.kv_tokens
    max_running: int = DEFAULTS.max_running
    max_spread: int = DEFAULTS.max_spread


@dataclass
class SeerTrainConfig(SkyRLTrainConfig):  # type: ignore[misc]  # SkyRL is not typed
    """SkyRL's settings and Seer's."""

    seer: SeerKeys = field(default_factory=SeerKeys)


class SeerExp(BasePPOExp):  # type: ignore[misc]
    """SkyRL's experiment, whose generator generates through Seer."""

    def get_generator(
        self, cfg: Any, tokenizer: Any, inference_engine_client: Any
    ) -> "SeerGenerator":
        """SkyRL's own generator over Seer's client. Raises InvalidInput for what Seer lacks."""
        check_config(cfg)
        client = SeerClient(
            inference_engine_client,
            tokenizer,
            BorrowedSettings(**asdict(cfg.seer)),
            longest_context(cfg),
        )
        return SeerGenerator(super().get_generator(cfg, tokenizer, client), client)


class SeerGenerator(GeneratorInterface):  # type: ignore[misc]
    """Any generator that asks `client`, with a rollout session of Seer's for each batch."""

    def __init__(self, inner: Any, client: SeerClient) -> None:
        self._inner = inner
        self._client = client

    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        """The inner generator's output, and Seer's figures among `rollout_metrics`.

        Raises InvalidInput for a batch whose columns differ in length, and for a reward that is no
        finite number.
        """
        async with self._client.batch(check_batch(input_batch)) as batch:
            output = await self._inner.generate(input_batch)
            figures = batch.metrics()
        for row, reward in enumerate(output["rewards"]):
            for value in reward if isinstance(reward, list) else [reward]:
                check_reward(value, f"trajectory {row}")
        output["rollout_metrics"] = {
            **(output.get("rollout_metrics") or {}),
            "seer/tokens_per_s": figures.throughput_tokens_per_s,
            "seer/tail_s": figures.tail_time_s,
            "seer/chunks": figures.num_chunks,
            "seer/instances_lost": figures.instances_lost,
        }
        return output


def check_config(cfg: Any) -> None:
    """Raise InvalidInput, naming SkyRL's key, for what Seer does not do."""
    engine = cfg.generator.inference_engine
    refused = {
        "generator.vision_language_generator": cfg.generator.vision_language_generator,
        "generator.inference_engine.enable_pd": engine.enable_pd,
        "generator.inference_engine.enable_return_routed_experts": (
            engine.enable_return_routed_experts
        ),
    }
    for name, value in refused.items():
        if value:
            raise InvalidInput(name, value, "allowed: false with Seer")


def check_batch(input_batch: GeneratorInput) -> list[tuple[str, str]]:
    """Session id and prompt id of each trajectory, as SkyRL's generator names them.

    Raises InvalidInput for columns of different lengths, or a trajectory that comes twice.
    """
    rows = len(input_batch["prompts"])
    for name in ("env_classes", "env_extras", "trajectory_ids"):
        column = input_batch.get(name)
        if column is not None and len(column) != rows:
            raise InvalidInput(name, f"{len(column)} rows", f"allowed: {rows}, as of prompts")
    ids = input_batch.get("trajectory_ids") or []
    sessions = [(f"{each.instance_id}_{each.repetition_id}", str(each.instance_id)) for each in ids]
    if len(dict(sessions)) != len(sessions):
        raise InvalidInput("trajectory_ids", "one comes twice", "allowed: each only once")
    return sessions


def longest_context(cfg: Any) -> int:
    """Tokens of the longest prompt and response together."""
    longest: int = (
        cfg.generator.max_input_length + cfg.generator.sampling_params.max_generate_length
    )
    return longest

"""SkyRL's settings (0.3.0), as many as are read."""

from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class SamplingParams:
    max_generate_length: int = 40


@dataclass
class InferenceEngineConfig:
    enable_pd: bool = False
    enable_return_routed_experts: bool = False


@dataclass
class GeneratorConfig:
    inference_engine: InferenceEngineConfig = field(default_factory=InferenceEngineConfig)
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    max_input_length: int = 128
    vision_language_generator: bool = False
    batched: bool = False


@dataclass
class SkyRLTrainConfig:
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)

    @classmethod
    def from_cli_overrides(cls, args: list[str]) -> Self:
        """`key.path=number` for each; a key that there is not is an error."""
        cfg = cls()
        for arg in args:
            path, _, value = arg.partition("=")
            if path == "trainer.override_entrypoint":
                continue
            *parents, name = path.split(".")
            holder: Any = cfg
            for parent in parents:
                holder = getattr(holder, parent)
            if not hasattr(holder, name):
                raise ValueError(path)
            setattr(holder, name, int(value))
        return cfg

"""Seer in SkyRL: `trainer.override_entrypoint=seer.trainers.skyrl.entrypoint`."""

import sys

import ray
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray

from seer.trainers.skyrl.experiment import SeerExp, SeerTrainConfig


@ray.remote(num_cpus=1)  # type: ignore[untyped-decorator]  # Ray is not checked
def seer_entrypoint(cfg: SeerTrainConfig) -> None:
    """The experiment, away from the head node as SkyRL's own."""
    SeerExp(cfg).run()


def main() -> None:
    """What SkyRL's `main` calls for `trainer.override_entrypoint`."""
    cfg = SeerTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(seer_entrypoint.remote(cfg))

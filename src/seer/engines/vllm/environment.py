"""What vLLM takes from the environment of its process: processors, devices, hashes, no network."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seer.errors import InvalidInput
from seer.rollout.engine import InstanceSetup

if TYPE_CHECKING:
    from seer.engines.vllm.spec import VllmSpec

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def prepare_environment(spec: "VllmSpec", setup: InstanceSetup) -> None:
    """Set this process's environment, before vLLM is imported; vLLM's processes inherit it."""
    os.environ.update(environment(spec, setup, os.environ))


def environment(
    spec: "VllmSpec", setup: InstanceSetup, current: Mapping[str, str]
) -> dict[str, str]:
    """The variables to set. Raises InvalidInput with too few visible GPUs."""
    variables = {
        "VLLM_LOGGING_LEVEL": current.get("VLLM_LOGGING_LEVEL", "WARNING"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONHASHSEED": "0",  # equal block hashes in all processes
    }
    if spec.device == "cpu":
        cpus = setup.cpus or tuple(sorted(os.sched_getaffinity(0)))
        variables["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(str(cpu) for cpu in cpus)
    else:
        variables[_VISIBLE] = _devices(spec, setup.instance_id, current.get(_VISIBLE))
    return variables


def _devices(spec: "VllmSpec", instance_id: int, visible: str | None) -> str:
    """The GPUs of one instance: all that a placement left visible, or its run of those of the node.

    Instances are numbered over the node, so their runs do not overlap.
    """
    count = spec.tensor_parallel
    first = instance_id * count
    if visible is None:
        return ",".join(str(first + i) for i in range(count))
    names = visible.split(",")
    if len(names) == count:
        return visible
    if first + count > len(names):
        asked = f"instance {instance_id} with {count} GPUs an instance"
        raise InvalidInput("tensor_parallel", count, f"{asked}: only {len(names)} are visible")
    return ",".join(names[first : first + count])

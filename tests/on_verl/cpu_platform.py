"""A CPU for verl, which ships platforms for accelerators only: what its trainer asks of a device.

Loaded by VERL_USE_EXTERNAL_MODULES, chosen by VERL_PLATFORM=cpu; VERL_ENGINE_DEVICE=cuda makes verl
take its FSDP engine, which is registered for accelerators. Ray's GPUs are then mere tickets.
"""

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def _device_module() -> types.ModuleType:
    """torch.cpu with what torch.cuda has besides."""
    module = types.ModuleType("cpu_device")
    for name in dir(torch.cpu):
        setattr(module, name, getattr(torch.cpu, name))
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated"):
        setattr(module, name, lambda *_: 0)
    for name in (
        "empty_cache",
        "ipc_collect",
        "reset_peak_memory_stats",
        "manual_seed",
        "manual_seed_all",
        "set_device",
    ):
        setattr(module, name, lambda *_: None)
    module.max_memory_reserved = lambda *_: 0
    module.mem_get_info = lambda *_: (2**33, 2**34)
    module.current_device = lambda: 0
    module.get_rng_state = torch.get_rng_state
    module.set_rng_state = torch.set_rng_state
    return module


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """One device, which is this machine."""

    device_name = "cpu"
    vendor_name = "none"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        del device_index
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        del msg
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None

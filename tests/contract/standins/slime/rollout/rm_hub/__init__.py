"""slime's rewards, by the function that `--custom-rm-path` names."""

from typing import Any

from slime.utils.misc import load_function


async def async_rm(args: Any, sample: Any, **_: Any) -> Any:
    return await load_function(args.custom_rm_path)(args, sample)


async def batched_async_rm(args: Any, samples: Any, **_: Any) -> Any:
    return await load_function(args.custom_rm_path)(args, samples)

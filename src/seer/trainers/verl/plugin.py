"""What verl loads of Seer: every process that imports verl imports this module.

The entry point is in the group `verl.plugins`. verl swallows what a plugin raises (it logs it at
debug level), and then says no more than that it knows no rollout of that name. So what is missing
is said here, at error level, and the name is registered all the same: who selects it is told why.
"""

import importlib
import logging
from typing import Any

from seer.errors import SeerError
from seer.trainers.verl.versions import TRIED, installed_verl

logger = logging.getLogger(__name__)

ENGINE = "seer"
"""`actor_rollout_ref.rollout.name` of Seer's own engine."""


def register() -> None:
    """Tell verl of Seer's engine.

    Raises SeerError where something is missing, and any error where verl has not the registries.
    """
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY  # noqa: PLC0415 - no public one
    from verl.workers.rollout.replica import RolloutReplicaRegistry  # noqa: PLC0415 - while verl loads

    _ROLLOUT_REGISTRY[ENGINE, "async"] = "seer.trainers.verl.adapter.SeerAdapter"
    RolloutReplicaRegistry.register(ENGINE, _replica)
    version = installed_verl()
    if version not in TRIED:
        logger.warning("Seer was not tried with verl %s, only with %s", version, ", ".join(TRIED))


def _replica() -> Any:
    installed_verl()
    return importlib.import_module("seer.trainers.verl.replica").SeerReplica


try:
    register()
except SeerError as error:
    logger.error("Seer cannot serve verl: %s", error)  # noqa: TRY400 - the message says it all
except Exception:
    logger.exception("Seer could not register itself with verl (tried: %s)", ", ".join(TRIED))
    raise

"""Settings of `seer train`: flags over the TOML file, the file over the defaults."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import typer

from seer.cli.flags import settings_command
from seer.cli.sources import check_divided_only, from_flags, read_toml, typed
from seer.errors import InvalidInput
from seer.trainers.training.config import TaskConfig, TrainConfig

TASKS = "tasks"
"""The one setting that has no flag: it is a list of tables."""


def train_command(run: Callable[[TrainConfig], None]) -> Callable[..., None]:
    """A typer command: the TOML file, and one flag for each setting but the tasks."""

    def command(config: Path, **flags: object) -> None:
        run(load_train_config(config, flags))

    generated = inspect.signature(settings_command(TrainConfig, run)).parameters
    parameters = [
        _file_argument(),
        *(each for name, each in generated.items() if name not in {"config", TASKS}),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = run.__doc__
    return command


def load_train_config(path: Path, flags: Mapping[str, object]) -> TrainConfig:
    """The settings. A flag that is None was not given. Raises InvalidInput."""
    fields = {field.name: field for field in msgspec.structs.fields(TrainConfig)}
    given: dict[str, Any] = {
        name: _tasks(value) if name == TASKS else typed(fields[name], value, strict=True)
        for name, value in read_toml(path, fields).items()
    }
    given |= from_flags(flags, fields)
    if TASKS not in given:
        raise InvalidInput(TASKS, None, "allowed: at least one table [[tasks]] with a name")
    config = TrainConfig(**given)
    if not config.baseline:
        check_divided_only(given, [config.policy])
    return config


def _file_argument() -> inspect.Parameter:
    argument = typer.Argument(help="TOML file with the settings", metavar="CONFIG")
    return inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=argument, annotation=Path
    )


def _tasks(value: object) -> list[TaskConfig]:
    try:
        return msgspec.convert(value, type=list[TaskConfig])
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidInput):  # of a task's own check
            raise error.__cause__ from None
        allowed = f"allowed: tables with {', '.join(TaskConfig.__struct_fields__)} ({error})"
        raise InvalidInput(TASKS, value, allowed) from error

"""Command-line flags, made from the settings: a flag exists because its setting does."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import typer
from msgspec.structs import FieldInfo

from seer.cli.sources import SettingsT, load_settings


def settings_command(
    kind: type[SettingsT], run: Callable[[SettingsT], None]
) -> Callable[..., None]:
    """A typer command with one flag for each setting of `kind`, and `--config`."""

    def command(config: Path | None, **flags: object) -> None:
        run(load_settings(kind, flags, config))

    parameters = [_config_flag(), *(_flag(field) for field in msgspec.structs.fields(kind))]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = run.__doc__
    return command


def _config_flag() -> inspect.Parameter:
    option = typer.Option(None, "--config", help="TOML file with the same names", metavar="FILE")
    return _keyword("config", Path | None, option)


def _flag(field: FieldInfo) -> inspect.Parameter:
    """One optional flag; None means that it was not given.

    Its text is parsed where a TOML file's values are checked, so that both are refused alike.
    """
    value_type, meta = get_args(field.type)
    option = typer.Option(
        None,
        f"--{field.name.replace('_', '-')}",
        help=meta.description + _default_note(field),
        metavar=None if value_type is bool else _metavar(value_type),
    )
    parsed_here = value_type if value_type in {bool, list[str]} else str
    return _keyword(field.name, parsed_here | None, option)


def _metavar(value_type: Any) -> str:
    kinds = {member for member in (value_type, *get_args(value_type)) if isinstance(member, type)}
    if int in kinds:
        return "N"
    return "X" if float in kinds else "TEXT"


def _default_note(field: FieldInfo) -> str:
    """The default in words, where it is a value worth showing."""
    if isinstance(field.default, str | int | float) and not isinstance(field.default, bool):
        return f" (default {field.default})"
    return ""


def _keyword(name: str, annotation: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation
    )

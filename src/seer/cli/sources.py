"""Settings from their sources: flags over a TOML file over the defaults."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
from msgspec.structs import FieldInfo

from seer.cli.settings import BenchSettings, RolloutSettings, Settings
from seer.errors import InvalidInput
from seer.scheduling.policies import DIVIDED_POLICY_NAMES

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)

DIVIDED_ONLY = ("chunk_size", "max_spread", "pull_gap_tokens")
"""Settings that the static policies have no use for."""


def load_settings(
    kind: type[SettingsT], flags: Mapping[str, object], config: Path | None
) -> SettingsT:
    """Settings of one command. A flag that is None was not given.

    A file may serve `rollout` and `bench`: what only the other one reads is left out.
    """
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    given = _from_file(config, kind) if config else {}
    given |= from_flags(flags, fields)
    if "prompts" in fields and "prompts" not in given:
        raise InvalidInput(
            "prompts", None, "allowed: a .jsonl or .parquet file, or reasoning-gym:<task>"
        )
    own: dict[str, Any] = {
        name: value for name, value in given.items() if name in kind.__struct_fields__
    }
    settings = kind(**own)
    if isinstance(settings, Settings):
        check_divided_only(own, settings.policy_names)
    return settings


def from_flags(flags: Mapping[str, object], fields: Mapping[str, FieldInfo]) -> dict[str, object]:
    """The flags that were given, in their settings' types. Raises InvalidInput."""
    return {
        name: typed(fields[name], value, strict=False)
        for name, value in flags.items()
        if value is not None
    }


def read_toml(path: Path, fields: Collection[str]) -> dict[str, object]:
    """A TOML file with keys out of `fields` only. Raises InvalidInput."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput("config", str(path), f"allowed: a readable file ({error})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("config", str(path), f"allowed: a TOML file ({error})") from error
    unknown = [key for key in table if key not in fields]
    if unknown:
        raise InvalidInput("config", ", ".join(unknown), f"allowed keys: {', '.join(fields)}")
    return table


def check_divided_only(given: Mapping[str, object], policies: Collection[str]) -> None:
    """Refuse settings that were given but could have no effect under these policies."""
    if set(policies) & set(DIVIDED_POLICY_NAMES):
        return
    for name in DIVIDED_ONLY:
        if name in given:
            divided = ", ".join(DIVIDED_POLICY_NAMES)
            allowed = f"allowed with a policy that divides ({divided}), not {', '.join(policies)}"
            raise InvalidInput(name, given[name], allowed)


def typed(field: FieldInfo, value: object, *, strict: bool) -> object:
    """The value in the setting's type; a flag's text is parsed when not strict."""
    try:
        return msgspec.convert(value, type=field.type, strict=strict)
    except msgspec.ValidationError as error:
        raise InvalidInput(field.name, value, f"allowed: {_in_words(field)}") from error


def _in_words(field: FieldInfo) -> str:
    """The allowed values of a setting's type."""
    value_type = get_args(field.type)[0]
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    for kind in (value_type, *get_args(value_type)):
        if kind in names:
            return names[kind]
    return f"one of {', '.join(get_args(value_type))}"


def _from_file(path: Path, kind: type[msgspec.Struct]) -> dict[str, object]:
    readers = (RolloutSettings, BenchSettings) if issubclass(kind, Settings) else (kind,)
    fields = {field.name: field for each in readers for field in msgspec.structs.fields(each)}
    table = read_toml(path, fields)
    return {key: typed(fields[key], value, strict=True) for key, value in table.items()}

"""Fields of settings: what their help says, and the least values of whole numbers."""

from collections.abc import Mapping

import msgspec

from seer.errors import InvalidInput


def about(text: str) -> msgspec.Meta:
    """The help text of a setting, for `Annotated`."""
    return msgspec.Meta(description=text)


def check_minimum(settings: msgspec.Struct, minimum: Mapping[str, int]) -> None:
    """Raise InvalidInput, naming the setting, where a whole number is below its least value."""
    for name, least in minimum.items():
        value = getattr(settings, name)
        if value is not None and value < least:
            raise InvalidInput(name, value, f"allowed: an integer >= {least}")

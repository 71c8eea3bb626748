"""Settings that are several names in one text."""

from seer.errors import InvalidInput


def names_by_commas(field: str, text: str) -> list[str]:
    """The names in the order given. Raises InvalidInput when one is empty or there twice."""
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise InvalidInput(field, text, "allowed: different names by commas")
    return names

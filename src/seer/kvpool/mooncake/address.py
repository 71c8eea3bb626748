"""How a user names a Mooncake pool: `mooncake://host:port`, the address of its master."""

import re
import secrets

from seer.errors import InvalidInput
from seer.types import RemoteAddress

_MAX_PORT = 65535


def parse_address(url: str) -> str:
    """The master's `host:port`. Raises InvalidInput for anything else."""
    match = re.fullmatch(r"mooncake://([A-Za-z0-9.-]+):(\d{1,5})", url)
    if match is None or not 1 <= int(match[2]) <= _MAX_PORT:
        raise InvalidInput("pool", url, "allowed: mooncake://host:port, its master's address")
    return f"{match[1]}:{match[2]}"


def new_address(url: str) -> RemoteAddress:
    """A part of the store that no other pool uses. Raises as `parse_address` does."""
    return RemoteAddress(master=parse_address(url), namespace=secrets.token_hex(8))

"""slime's HTTP calls: JSON out, JSON in; the last failure is raised."""

import asyncio
import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class HTTPStatusError(Exception):
    """As httpx's: an answer with an error status, in `response`."""

    def __init__(self, response: HTTPError) -> None:
        super().__init__(f"status {response.code}")
        self.response = response


def init_http_client(args: Any) -> None:
    """Nothing to prepare here."""
    del args


async def post(url: str, payload: Any, max_retries: int = 60, headers: Any = None) -> Any:
    """POST, tried `max_retries` times."""
    del headers
    for attempt in range(1, max_retries + 1):
        try:
            return await asyncio.to_thread(_call, url, json.dumps(payload).encode())
        except (OSError, HTTPStatusError):
            if attempt == max_retries:
                raise
    raise AssertionError


async def get(url: str) -> Any:
    """GET."""
    return await asyncio.to_thread(_call, url, None)


def _call(url: str, body: bytes | None) -> Any:
    request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
    try:
        with urlopen(request) as response:  # noqa: S310 - loopback
            return json.loads(response.read())
    except HTTPError as error:
        raise HTTPStatusError(error) from None

"""Calls that may not return for long, made on a thread of their own and waited for a while only."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class CallThread:
    """One daemon thread that makes one call after the other."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._calls = queue.SimpleQueue()
        self._given_up: Future[Any] | None = None
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    @property
    def is_free(self) -> bool:
        """Whether no call that was given up is still running."""
        return self._given_up is None or self._given_up.done()

    def call(self, work: Callable[[], T], limit_s: float) -> T:
        """The result of `work`. Raises TimeoutError after `limit_s` s; the call itself goes on.

        The caller leaves alone what the call uses until `is_free`.
        """
        future: Future[T] = Future()
        self._calls.put((future, work))
        try:
            return future.result(limit_s)
        except TimeoutError:
            self._given_up = future
            raise

    def close(self) -> None:
        """End the thread after what it runs now."""
        self._calls.put(None)

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            future, work = asked
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                future.set_exception(error)

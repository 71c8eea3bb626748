"""The requests that wait to be scheduled, in the policy's order (the paper's request buffer).

A heap whose outdated entries are skipped when they surface: adding, removing and looking at the
head cost O(log n) amortised, however many requests wait.
"""

import heapq

from seer.types import RequestId

OrderKey = tuple[int, ...]
"""Place of a waiting request; the least is served first. Keys of one buffer have one length."""


class RequestBuffer:
    """Waiting requests, least key first; equal keys by id (group, then member)."""

    def __init__(self) -> None:
        self._heap: list[tuple[OrderKey, RequestId]] = []
        self._keys: dict[RequestId, OrderKey] = {}
        self._aside: dict[RequestId, OrderKey] = {}
        """Waiting requests that are passed over for now, with the keys they then had."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._keys

    def key(self, request_id: RequestId) -> OrderKey:
        """Key of a waiting request."""
        return self._keys[request_id]

    def add(self, request_id: RequestId, key: OrderKey) -> None:
        """Let a request wait; a request that waits already gets a new key."""
        if self._keys.get(request_id) != key:
            self._keys[request_id] = key
            heapq.heappush(self._heap, (key, request_id))

    def discard(self, request_id: RequestId) -> None:
        """Take a request out, if it waits."""
        self._keys.pop(request_id, None)

    def head(self) -> RequestId | None:
        """The request that is next."""
        while self._heap:
            key, request_id = self._heap[0]
            if self._keys.get(request_id) == key and self._aside.get(request_id) != key:
                return request_id
            heapq.heappop(self._heap)
        return None

    def set_aside(self) -> None:
        """Pass over the request that is next; it waits on, and is next again after `restore`."""
        request_id = self.head()
        if request_id is not None:
            self._aside[request_id] = self._keys[request_id]
            heapq.heappop(self._heap)

    def restore(self) -> None:
        """No longer pass over anything."""
        for request_id, key in self._aside.items():
            if self._keys.get(request_id) == key:
                heapq.heappush(self._heap, (key, request_id))
        self._aside.clear()

    def pop(self) -> RequestId | None:
        """Take out the request that is next."""
        request_id = self.head()
        if request_id is not None:
            heapq.heappop(self._heap)
            del self._keys[request_id]
        return request_id

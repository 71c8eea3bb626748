"""Several draft servers as one: each group lives on one of them."""

from collections.abc import Sequence

from seer.drafting.draft_server import DraftLink
from seer.drafting.messages import Fetched, GroupHave, GroupKey, TokenUpdate
from seer.drafting.remote_server import RemoteServer

SEPARATOR = ","


def link_to(server: str) -> DraftLink:
    """The link to what `DraftingConfig.server` names: an address, or several by commas."""
    links = [RemoteServer(address) for address in server.split(SEPARATOR)]
    return links[0] if len(links) == 1 else ShardedServer(links)


class ShardedServer:
    """A DraftLink over several servers: a group's number says which of them keeps it.

    All clients must name the servers in the same order. One that is away takes nothing and tells
    nothing while the others go on; a call raises ConnectionError when all that it asks are away.
    """

    def __init__(self, links: Sequence[DraftLink]) -> None:
        """Takes the links over, at least one, and closes them."""
        self._links = links

    def update(self, updates: Sequence[TokenUpdate]) -> None:
        """Send each update to its group's server."""
        parts: dict[int, list[TokenUpdate]] = {}
        for update in updates:
            parts.setdefault(self._place(update.key), []).append(update)
        failures = []
        for place, part in parts.items():
            try:
                self._links[place].update(part)
            except ConnectionError as error:
                failures.append(error)
        if parts and len(failures) == len(parts):
            raise failures[0]

    def fetch(self, groups: Sequence[GroupHave]) -> Fetched:
        """Ask each server for its groups; those of a server that is away are left out."""
        parts: dict[int, list[GroupHave]] = {}
        for have in groups:
            parts.setdefault(self._place(have.key), []).append(have)
        answers, failures = [], []
        for place, part in parts.items():
            try:
                answers.append(self._links[place].fetch(part))
            except ConnectionError as error:
                failures.append(error)
        if parts and not answers:
            raise failures[0]
        return Fetched(
            call=0,
            deltas=[delta for answer in answers for delta in answer.deltas],
            is_complete=all(answer.is_complete for answer in answers),
        )

    def close(self) -> None:
        """Close all links."""
        for link in self._links:
            link.close()

    def _place(self, key: GroupKey) -> int:
        return key.group % len(self._links)

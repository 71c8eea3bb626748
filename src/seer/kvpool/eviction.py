"""Which idle KV leaves an instance first when a chunk needs its blocks.

Requests at rest first, and of these the one that the policy would run last; then prompts with no
member on the instance, the youngest group's first (served in order, its members run last).
# Paper silent: which KV leaves an instance.
"""

from collections.abc import Callable, Iterator

from seer.kvpool.instance_ledger import InstanceLedger
from seer.types import KVKey, RequestId


def eviction_order(
    ledger: InstanceLedger, kept: RequestId, order_key: Callable[[RequestId], tuple[int, ...]]
) -> Iterator[KVKey]:
    """Objects to evict, one after the other, but never what the request `kept` builds on.

    `order_key` gives the place of a waiting request in the policy's order; ties go by id. The
    caller drops each object from the ledger before it asks for the next one.
    """
    resting = [request_id for request_id in ledger.resting_requests() if request_id != kept]
    for request_id in sorted(resting, key=lambda r: (order_key(r), r), reverse=True):
        yield request_id.kv_key
    memberless = [group for group in ledger.memberless_prompts() if group != kept.group]
    for group in sorted(memberless, reverse=True):
        yield KVKey(group)

"""How many tokens a second one draft server takes from many client processes.

    python benchmarks/drafting/server_appends.py [--clients 8] [--seconds 4]

Each client process runs 32 requests in 4 groups and talks to the server as a draft client does:
updates of all requests in one message, then a fetch, whose answer says where the server stands.
`own` groups: nobody has anything to pull. `shared` groups: every client is sent what all others
wrote. What counts is what the server says it has, over the time from the first update to the last
answer. Prints a Markdown table; measured on this machine, clients and server on the same cores.
"""

import argparse
import multiprocessing
import os
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np

from seer.drafting.messages import GroupHave, GroupKey, TokenUpdate, pack_tokens
from seer.drafting.remote_server import RemoteServer
from seer.drafting.server_process import ServerProcess

VOCABULARY = 50_000
GROUPS, MEMBERS = 4, 8
TTL_S = 600.0


def main() -> None:
    """One row for each kind of groups and size of updates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0)
    arguments = parser.parse_args()
    print(f"{arguments.clients} client processes, {os.cpu_count()} cores\n")
    print("| groups | tokens an update | tokens/s appended | exchanges/s | server CPU |")
    print("|---|---|---|---|---|")
    for shared in (False, True):
        for size in (16, 64, 256):
            print(_row(arguments.clients, arguments.seconds, size, shared=shared), flush=True)


def _row(num_clients: int, seconds: float, size: int, *, shared: bool) -> str:
    server = ServerProcess.start(vocab_size=VOCABULARY)
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(num_clients)
    results: multiprocessing.Queue = context.Queue()
    clients = [
        context.Process(
            target=_client,
            kwargs={
                "address": server.address,
                "number": i,
                "size": size,
                "seconds": seconds,
                "shared": shared,
                "start": start,
                "results": results,
            },
        )
        for i in range(num_clients)
    ]
    for client in clients:
        client.start()
    done = [results.get(timeout=seconds + 60) for _ in clients]
    busy = _cpu_s(server.pid)
    for client in clients:
        client.join()
    server.close()
    elapsed = max(end for _, end, _, _ in done) - min(begin for begin, _, _, _ in done)
    tokens = sum(count for _, _, count, _ in done)
    exchanges = sum(count for _, _, _, count in done)
    name = "shared" if shared else "own"
    return (
        f"| {name} | {size} | {tokens / elapsed / 1e6:.2f} million | {exchanges / elapsed:.0f} "
        f"| {busy / elapsed:.0%} |"
    )


def _client(
    *,
    address: str,
    number: int,
    size: int,
    seconds: float,
    shared: bool,
    start: Barrier,
    results: multiprocessing.Queue,
) -> None:
    """Append for some seconds; puts (begin, end, tokens that the server has, exchanges)."""
    link = RemoteServer(address, reply_limit_s=30.0)
    keys = [GroupKey(g if shared else number * GROUPS + g) for g in range(GROUPS)]
    members = range(number * MEMBERS, (number + 1) * MEMBERS)
    token_bytes = pack_tokens(np.random.default_rng(number).integers(0, 200, size).astype(np.int32))
    lengths: dict[GroupKey, dict[int, int]] = {key: {} for key in keys}
    _fetch(link, lengths)
    start.wait()
    begin = time.monotonic()
    length = num_exchanges = 0
    while time.monotonic() < begin + seconds:
        link.update(
            [
                TokenUpdate(
                    key=key, request=member, prev_num_tokens=length, token_bytes=token_bytes
                )
                for key in keys
                for member in members
            ]
        )
        length += size
        for key in keys:
            lengths[key].update(dict.fromkeys(members, length))
        _fetch(link, lengths)
        num_exchanges += 1
    results.put((begin, time.monotonic(), length * GROUPS * MEMBERS, num_exchanges))
    link.close()


def _fetch(link: RemoteServer, lengths: dict[GroupKey, dict[int, int]]) -> None:
    """One fetch; takes what others wrote as known. The server must have all that was sent."""
    haves = [GroupHave(key=key, ttl_s=TTL_S, lengths=have) for key, have in lengths.items()]
    for delta in link.fetch(haves).deltas:
        assert not delta.behind  # noqa: S101 - appends counted below must be there
        for update in delta.updates:
            end = update.prev_num_tokens + len(update.token_bytes) // 4
            lengths[delta.key][update.request] = end


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

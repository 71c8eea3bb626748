"""What drafting adds to an engine's step: appends, drafts and plans, beside a busy exchange.

    python benchmarks/drafting/step_cost.py

Two clients of 32 requests in 4 groups share a server process; each step appends 3 tokens to every
request and drafts 8 nodes for it, 4 ms apart. Then the server is killed and they go on. Plans are
timed on made-up probabilities. Prints Markdown tables; times are of the calling thread.
"""

import time
from collections.abc import Callable

import numpy as np

from seer.costmodel.step_time import Bend, SurfaceStepTime
from seer.drafting.acceptance import AcceptanceStatistics
from seer.drafting.budget import SeerBudget
from seer.drafting.draft_client import ClientSettings, DraftClient
from seer.drafting.messages import GroupKey
from seer.drafting.outcomes import known_outcomes
from seer.drafting.planner import Planner, RunningBatch
from seer.drafting.remote_server import RemoteServer
from seer.drafting.server_process import ServerProcess
from seer.drafting.suffix_tree import Drafts, DraftSettings

VOCABULARY = 50_000
NUM_STEPS = 300
NODES = 8
GROUPS, MEMBERS = 4, 8
STEP_TIME = SurfaceStepTime(
    fixed_s=5e-3, per_token_s=1e-4, bends=(Bend(above_tokens=64, per_token_s=4e-4),)
)


def main() -> None:
    """Both tables."""
    print("| server | append, µs a request: median | p99 | max | draft, µs a batch | p99 | max |")
    print("|---|---|---|---|---|---|---|")
    server = ServerProcess.start(vocab_size=VOCABULARY)
    clients = [_client(server.address, number) for number in range(2)]
    for name, prepare in (("there", lambda: None), ("killed", server.kill)):
        prepare()
        times = _steps(clients)
        cells = [f"{cell:.1f}" for row in times for cell in np.percentile(row, [50, 99, 100])]
        print("|", " | ".join([name, *cells]), "|")
    for client, _ in clients:
        client.close()
    server.close()
    print("\n| requests | plan, µs | learn, µs |\n|---|---|---|")
    for num_requests in (1, 8, 32, 256):
        plan_us, observe_us = _plan(num_requests)
        print(f"| {num_requests} | {plan_us:.0f} | {observe_us:.0f} |")


def _client(address: str, number: int) -> tuple[DraftClient, list]:
    """A client, its requests open."""
    client = DraftClient(RemoteServer(address), ClientSettings(vocab_size=VOCABULARY))
    keys = [GroupKey(group) for group in range(GROUPS)]
    for key in keys:
        client.register_group(key, np.arange(100))
    client.start()
    first = number * MEMBERS
    return client, [client.open(key, first + m) for key in keys for m in range(MEMBERS)]


def _steps(clients: list) -> np.ndarray:
    """(2, steps) µs of the appends, a request, and of the drafts, a batch."""
    rng = np.random.default_rng(0)
    times = []
    for _ in range(NUM_STEPS):
        for client, requests in clients:
            tokens = rng.integers(0, 200, (len(requests), 3)).astype(np.int32)
            began = time.perf_counter()
            for request, new in zip(requests, tokens, strict=True):
                client.append(request, request.num_tokens, new)
            appended = time.perf_counter()
            client.speculate(requests, NODES, DraftSettings())
            drafted = time.perf_counter()
            times.append([(appended - began) / len(requests), drafted - appended])
        time.sleep(0.004)
    return np.array(times).T * 1e6


def _plan(num_requests: int) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    statistics = AcceptanceStatistics()
    planner = Planner(SeerBudget(step_time=STEP_TIME), DraftSettings(), statistics)
    batch = RunningBatch(
        num_tokens_left=np.full(num_requests, 100, np.int32),
        is_probe=np.zeros(num_requests, np.bool_),
        weights=np.ones(num_requests),
    )
    size = num_requests * NODES
    drafts = Drafts(
        token_ids=np.zeros(size, np.int32),
        parents=np.tile(np.arange(-1, NODES - 1, dtype=np.int32), num_requests),
        probabilities=-np.sort(-rng.random((num_requests, NODES), np.float32)).ravel(),
        offsets=np.arange(0, size + 1, NODES, dtype=np.int32),
        match_lengths=np.full(num_requests, 5, np.int32),
    )
    verified = np.full(num_requests, NODES, np.int32)
    new_tokens = [[0, 1]] * num_requests
    plan = _median_us(lambda: planner.plan(batch, drafts, 1000.0))

    def learn() -> None:
        statistics.observe(drafts, *known_outcomes(drafts, verified, new_tokens))

    return plan, _median_us(learn)


def _median_us(work: Callable[[], object]) -> float:
    times = []
    for _ in range(100):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return float(np.median(times)) * 1e6


if __name__ == "__main__":
    main()

"""How long vLLM waits for `propose`: everything that drafting inside vLLM adds to a step.

    python benchmarks/drafting/vllm_propose.py [--requests 64] [--steps 400]

The proposer runs as in vLLM's worker, with a draft server in another process that it exchanges with
in the background; vLLM's model runner is played by a list. Requests of groups of 8 repeat what
their group has written, 7 tokens in 10, so guesses come right and wrong. Prints a Markdown table;
times are measured, in milliseconds of one call.
"""

import argparse
import time
from types import SimpleNamespace

import numpy as np

from seer.drafting.config import DraftingConfig
from seer.drafting.server_process import ServerProcess
from seer.engines.vllm.drafting import identity
from seer.engines.vllm.drafting.proposer import GroupDraftProposer
from seer.engines.vllm.drafting.settings import VllmDrafting

VOCABULARY = 50_000
PROMPT, MAX_LENGTH = 100, 8192
GROUP_SIZE = 8
STEP_S = 0.005
"""Between two calls, when vLLM would compute."""
REPEATED = 0.7
"""Tokens that are the group's own text, of all."""


def main() -> None:
    """One row a budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    print(f"| budget, {arguments.requests} requests | median | p90 | p99 | guesses a request |")
    print("|---|---|---|---|---|")
    server = ServerProcess.start(vocab_size=VOCABULARY)
    for version, budget in enumerate(("fixed:4", "fixed:8", "marginal", "seer")):
        runner = _runner(arguments.requests, version)
        times, guesses = _run(budget, server.address, runner, arguments.steps)
        cells = " | ".join(f"{value * 1e3:.2f}" for value in np.percentile(times, [50, 90, 99]))
        print(f"| {budget} | {cells} | {guesses:.1f} |", flush=True)
    server.close()


def _run(
    budget: str, server: str, runner: SimpleNamespace, num_steps: int
) -> tuple[list[float], float]:
    """Seconds of each call, and guesses a request and call."""
    settings = VllmDrafting(drafting=DraftingConfig(budget=budget, server=server), repair=False)
    model = SimpleNamespace(max_model_len=MAX_LENGTH, get_vocab_size=lambda: VOCABULARY)
    proposer = GroupDraftProposer(
        SimpleNamespace(
            additional_config=settings.engine_arguments()["additional_config"], model_config=model
        )
    )
    proposer.attach(runner)
    num_requests = len(runner.requests)
    rng = np.random.default_rng(0)
    token_ids = np.zeros((num_requests, MAX_LENGTH), np.int32)
    lengths = np.full(num_requests, PROMPT, np.int32)
    texts = rng.integers(0, 500, (num_requests // GROUP_SIZE + 1, MAX_LENGTH)).astype(np.int32)
    for row in range(num_requests):
        token_ids[row, :PROMPT] = texts[row // GROUP_SIZE, :PROMPT]
    guesses: list[list[int]] = [[] for _ in range(num_requests)]
    times, count = [], 0
    for _ in range(num_steps):
        sampled = [
            _sampled(rng, texts[row // GROUP_SIZE, lengths[row] :], guesses[row])
            for row in range(num_requests)
        ]
        for row, tokens in enumerate(sampled):
            token_ids[row, lengths[row] : lengths[row] + len(tokens)] = tokens
            lengths[row] += len(tokens)
        time.sleep(STEP_S)
        began = time.perf_counter()
        guesses = proposer.propose(sampled, lengths, token_ids, slot_mappings=None)
        times.append(time.perf_counter() - began)
        count += sum(map(len, guesses))
    proposer.close()
    return times[num_steps // 10 :], count / num_steps / num_requests


def _runner(num_requests: int, version: int) -> SimpleNamespace:
    """What the proposer asks of vLLM's model runner."""
    requests = {
        f"{row}-{version}": SimpleNamespace(
            sampling_params=SimpleNamespace(
                max_tokens=MAX_LENGTH,
                extra_args={
                    identity.REQUEST: [row // GROUP_SIZE, row % GROUP_SIZE],
                    identity.PROMPT_TOKENS: PROMPT,
                    identity.WEIGHT_VERSION: version,
                    identity.IS_PROBE: int(row % GROUP_SIZE == 0),
                },
            )
        )
        for row in range(num_requests)
    }
    batch = SimpleNamespace(
        req_ids=list(requests), num_prompt_tokens=np.full(num_requests, PROMPT, np.int32)
    )
    return SimpleNamespace(requests=requests, input_batch=batch)


def _sampled(rng: np.random.Generator, text: np.ndarray, guesses: list[int]) -> list[int]:
    """What a model makes of the guesses that writes the group's text, most of the time."""
    sampled: list[int] = []
    for own, guess in zip(text, [*guesses, None], strict=False):
        sampled.append(int(own) if rng.random() < REPEATED else int(rng.integers(0, 500)))
        if sampled[-1] != guess:
            break
    return sampled


if __name__ == "__main__":
    main()

"""What verifying several tokens a request costs, relative to one (measured).

python benchmarks/engine/verify_cost.py --model DIR
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from seer.engines.local.batch import build_batch
from seer.engines.local.decoder import Decoder
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import read_model_config
from seer.engines.local.ops import make_ops
from seer.engines.local.rotary import rope_table
from seer.engines.local.sampling import sample_params
from seer.engines.local.spec import BLOCK_TOKENS
from seer.engines.local.weights import load_weights
from seer.engines.serving.draft import chain
from seer.engines.serving.step_model import Rows
from seer.types import SamplingParams

CASES = ((1, 256), (1, 1024), (8, 256), (8, 1024))
WIDTHS = (1, 2, 4, 8)


def _median_ms(step: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:]) * 1e3


class Stepper:
    """A model whose steps are timed."""

    def __init__(self, model: str, dtype: str) -> None:
        self._device = torch.device("cpu")
        kind = getattr(torch, dtype)
        config = read_model_config(model)
        cache = KVCache(config, 400, BLOCK_TOKENS, kind, self._device)
        rope = rope_table(model, config, self._device)
        self._ops = make_ops(config, cache, rope, self._device)
        self._decoder = Decoder(load_weights(model, config, kind, self._device), self._ops)

    def milliseconds(self, batch: int, context: int, width: int, repeats: int) -> float:
        """Median time of a step that feeds and draws `width` tokens for each request."""
        blocks = (context + width) // BLOCK_TOKENS + 1
        sequences = [
            Rows(
                token_ids=[100 + i],
                first_position=context,
                blocks=range(i * blocks, (i + 1) * blocks),
                samples=True,
                draft=chain([100 + i] * (width - 1)),
            )
            for i in range(batch)
        ]
        step = build_batch(sequences, self._device)
        rows = batch * width
        params = sample_params(
            [SamplingParams(temperature=0.8)] * rows, np.full(rows, 0.5), raw=False
        )
        return _median_ms(lambda: self._ops.sample(self._decoder(step), params), repeats)


def main() -> None:
    """Print one line a case: milliseconds a step and the ratio to one token."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    for name in args.dtypes:
        stepper = Stepper(args.model, name)
        for batch, context in CASES:
            cells = [stepper.milliseconds(batch, context, w, args.repeats) for w in WIDTHS]
            shown = "  ".join(
                f"q={w} {ms:6.1f} ms ({ms / cells[0]:.2f}x)"
                for w, ms in zip(WIDTHS, cells, strict=True)
            )
            print(f"{name:9} batch {batch} context {context:5}  {shown}", flush=True)


if __name__ == "__main__":
    main()

"""The repair of vLLM's verification of drafts on CPUs, in vLLM's own functions."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

PROGRAM = """
import json
from types import SimpleNamespace
import torch
from vllm.platforms import current_platform
current_platform.register_triton_kernel_overrides()  # as vLLM's worker does
from vllm.v1.sample.rejection_sampler import apply_sampling_constraints
from seer.engines.vllm.drafting.repair import (
    filters_no_rows, repair_rejection_sampler, spreads_right
)

def scaled():
    logits = torch.arange(6.0).repeat(4, 1)
    settings = SimpleNamespace(
        all_greedy=False,
        temperature=torch.tensor([0.5, 2.0, 0.0]),  # 0: greedy
        top_k=torch.tensor([6, 2, 6], dtype=torch.int32),
        top_p=torch.tensor([1.0, 1.0, 0.2]),
    )
    ends = torch.tensor([2, 3, 4], dtype=torch.int32)
    return apply_sampling_constraints(logits, ends, settings).nan_to_num(neginf=-99.0).tolist()

was_right = spreads_right() or filters_no_rows()
repaired = repair_rejection_sampler()
again = repair_rejection_sampler()
is_right = spreads_right() and filters_no_rows()
print(json.dumps([was_right, repaired, again, is_right, scaled()]))
"""


def test_each_guess_gets_its_own_requests_settings_after_the_repair() -> None:
    """Before, vLLM reads unwritten memory; after, temperature, top-k and top-p reach the guesses.

    In a process of its own: the repair stays for the life of a process.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    was_right, repaired, again, is_right, scaled = json.loads(done.stdout.splitlines()[-1])
    assert (was_right, repaired, again, is_right) == (False, True, False, True)
    assert scaled == [
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0],
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0],
        [-99.0, -99.0, -99.0, -99.0, 2.0, 2.5],
        [-99.0, -99.0, -99.0, -99.0, -99.0, 5.0],
    ]

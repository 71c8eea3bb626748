"""What the paper reports (arXiv:2511.14617v3 and OSDI '26), by workload; nothing of ours."""

WORKLOADS = ("moonlight", "qwen2-vl-72b", "kimi-k2")

FIG_3 = {"preemptions": 13_686, "idle share": 0.37, "finish gap": 0.70}
"""veRL on qwen2-vl-72b, one iteration: shares of the total time."""

FIG_7 = {
    ("moonlight", 8): (1.16, 1.21, 1.62, 1.78),
    ("moonlight", 16): (1.34, 1.30, 1.56, 1.83),
    ("qwen2-vl-72b", 8): (1.14, 1.33, 1.46, 1.82),
    ("qwen2-vl-72b", 16): (1.08, 1.43, 1.57, 2.04),
    ("kimi-k2", 8): (1.26, 0.99, 1.09, 1.48),
    ("kimi-k2", 16): (1.22, 0.94, 1.02, 1.44),
}
"""Throughput over veRL's, by workload and group size: veRL with vanilla drafts, StreamRL-Oracle,
StreamRL-Oracle with vanilla drafts, Seer."""

FIG_8_VERL = {
    "moonlight": (3_910, 1_817),
    "qwen2-vl-72b": (3_957, 2_301),
    "kimi-k2": (12_202, 3_144),
}
"""Total and tail, seconds."""
FIG_8_SEER = {"moonlight": (2_181, 278), "qwen2-vl-72b": (1_922, 123), "kimi-k2": (8_267, 850)}

FIG_10 = {"divided": (1.42, 0.79), "context_aware": (1.56, 0.11), "oracle": (1.63, 0.00)}
"""Throughput and tail over veRL's on qwen2-vl-72b, without drafts."""

FIG_12_RATIO = 1.43
"""Throughput of Seer over partial rollout's on qwen2-vl-72b."""

TABLE_4 = {
    "divided": (1.41, 1.42, 1.16),
    "context_aware": (1.47, 1.56, 1.27),
    "context_aware + drafts": (1.90, 2.04, 1.53),
}
"""Throughput over veRL's, in the order of `WORKLOADS`."""

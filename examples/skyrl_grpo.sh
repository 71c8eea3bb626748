#!/usr/bin/env bash
# SkyRL with Seer's controller over its own vLLM servers. Not run as a whole: it needs GPUs. The
# generator and its client are tested against SkyRL's interface (docs/trainers.md).
#
# Run it where SkyRL's own scripts run, with seer-rl installed there. SKYRL_ARGS holds your
# overrides as they are; the lines behind them are Seer's.
set -euo pipefail
: "${SKYRL_ARGS:?your overrides of skyrl.train.entrypoints.main_base}"

# seer.kv_tokens: "GPU KV cache size" in the log of one vLLM server.
# shellcheck disable=SC2086 # words, on purpose
python -m skyrl.train.entrypoints.main_base $SKYRL_ARGS \
    trainer.override_entrypoint=seer.trainers.skyrl.entrypoint \
    seer.policy=context_aware seer.chunk_size=2048 seer.kv_tokens="${KV_TOKENS:-null}"

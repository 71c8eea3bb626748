#!/usr/bin/env bash
# slime with Seer's controller over its own SGLang servers. Not run as a whole: it needs GPUs. The
# rollout function is tested against slime's interface (docs/trainers.md).
#
# Run it where slime's own scripts run, with seer-rl installed there. SLIME_ARGS holds your
# arguments as they are (model, data, optimiser, GPUs ...); the two lines at the end are Seer's.
set -euo pipefail
: "${SLIME_ARGS:?your arguments of train.py, without --rollout-function-path}"

settings=$(mktemp --suffix=.yaml)
cat > "$settings" <<'YAML'
seer_policy: context_aware
seer_chunk_size: 2048
YAML

# shellcheck disable=SC2086 # words, on purpose
python3 train.py $SLIME_ARGS \
    --rollout-function-path seer.trainers.slime.rollout.generate \
    --custom-config-path "$settings"

#!/usr/bin/env bash
# OpenRLHF with Seer's controller over each of its vLLM engines. Not run as a whole: it needs GPUs.
# The executor is tested against OpenRLHF's interface (docs/trainers.md).
#
# Run it where OpenRLHF's own scripts run, with seer-rl installed there. OPENRLHF_ARGS holds your
# arguments as they are, without --reward.remote_url: the agent file names the reward file.
set -euo pipefail
: "${OPENRLHF_ARGS:?your arguments of openrlhf.cli.train_ppo_ray, without --train.async_enable}"
export REWARD_FILE="${REWARD_FILE:-$PWD/reward.py}"

# shellcheck disable=SC2086 # words, on purpose
python3 -m openrlhf.cli.train_ppo_ray $OPENRLHF_ARGS \
    --train.agent_func_path "$(dirname "$0")/openrlhf_agent.py"

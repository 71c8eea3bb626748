#!/usr/bin/env bash
# GRPO with verl's own trainer, and Seer in it. Usage: examples/verl_grpo.sh MODEL [verl's overrides]
#   SEER=controller (default)  verl's vLLM servers under Seer's controller: two keys
#   SEER=engine                Seer's engine, scheduled by verl: one key
#   SEER=both                  Seer's engine under Seer's controller: three keys
#   SEER=off                   verl as it is
# docs/verl.md says what was run. Needs: pip install 'seer-rl[verl]', and vLLM for verl's servers.
set -euo pipefail

model=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
data=${DATA:-/tmp/verl_sums}
rollout=actor_rollout_ref.rollout
package=$(python -c 'import importlib.util as u; print(u.find_spec("seer.trainers.verl").submodule_search_locations[0])')

controller=(
    "+$rollout.agent.agent_loop_manager_class=seer.trainers.verl.manager.SeerAgentLoopManager"
    "$rollout.router_config_path=$package/router.yaml"
)
case ${SEER:-controller} in
    controller) keys=("$rollout.name=vllm" "${controller[@]}") ;;
    engine) keys=("$rollout.name=seer") ;;
    both) keys=("$rollout.name=seer" "${controller[@]}") ;;
    off) keys=("$rollout.name=vllm") ;;
    *) echo "SEER: got ${SEER}; allowed: controller, engine, both, off" >&2 && exit 2 ;;
esac

python "$here/verl_sums.py" "$data"
exec python -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="$data/train.parquet" data.val_files="$data/test.parquet" \
    data.train_batch_size=32 data.max_prompt_length=64 data.max_response_length=128 \
    reward.custom_reward_function.path="$here/verl_sums.py" \
    actor_rollout_ref.model.path="$model" \
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
    $rollout.log_prob_micro_batch_size_per_gpu=8 \
    $rollout.tensor_model_parallel_size=1 $rollout.n=8 \
    trainer.logger=console trainer.n_gpus_per_node=1 trainer.nnodes=1 \
    trainer.total_training_steps=20 trainer.test_freq=10 trainer.save_freq=-1 \
    "${keys[@]}" "$@"

"""`rollout.name=seer` for real: verl's managers, agent loops and batches over Seer's engine."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl")

import ray
import torch
from verl.experimental.agent_loop import AgentLoopManager
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerManager

from on_verl.batches import make_batch, make_manager, responses
from on_verl.conftest import ROLLOUT, SEER_KEYS, MakeConfig
from on_verl.trained_worker import start_worker_group
from seer.errors import InvalidInput
from seer.trainers.verl.settings import engine_spec, read_settings

ENGINE_KEYS = (f"{ROLLOUT}.name=seer", f"{ROLLOUT}.agent.num_workers=1")
CONTENTS = ("say one", "say two", "say three")
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Stage:
    """verl's pieces, as its trainer puts them together."""

    worker: Any
    servers: Any
    manager: Any

    def update_weights(self, step: int) -> None:
        """As the naive checkpoint engine does."""
        ray.get(self.worker.update_weights.remote(step))

    def largest_difference(self, output: Any) -> float:
        """Of a token's log-probability, between the rollout and the trained model."""
        ours = ray.get(self.worker.logprobs.remote(output))
        mask = output.batch["response_mask"].bool()
        return (ours - output.batch["rollout_log_probs"])[mask].abs().max().item()


@pytest.fixture(scope="module")
def stage(local_ray: None, make_config: MakeConfig) -> Stage:
    """One key: verl's own router and agent loops over Seer's engine, on two replicas."""
    del local_ray
    config = make_config(*ENGINE_KEYS, f"+{ROLLOUT}.custom.seer.drafting=fixed:3")
    group = start_worker_group(config, 2)
    servers = LLMServerManager.create(config=config, worker_group=group)
    manager = AgentLoopManager.create(config=config, llm_client=servers.get_client())
    made = Stage(worker=group.workers[0], servers=servers, manager=manager)
    made.update_weights(0)
    return made


@pytest.fixture(scope="module")
def scheduled(stage: Stage, make_config: MakeConfig) -> Stage:
    """Three keys: Seer's controller over the same servers."""
    keys = (*ENGINE_KEYS, *SEER_KEYS, f"+{ROLLOUT}.custom.seer.chunk_size=8")
    handles = {r.server_address: r.server_handle for r in stage.servers.get_replicas()}
    return dataclasses.replace(stage, manager=make_manager(make_config(*keys), handles))


def test_responses_are_on_policy_after_each_update(stage: Stage) -> None:
    """Log-probabilities are those of the trained model, also when its weights have changed."""
    before = stage.manager.generate_sequences(make_batch(CONTENTS, 4, step=1))
    assert stage.largest_difference(before) <= TOLERANCE
    ray.get(stage.worker.step.remote())
    assert stage.largest_difference(before) > TOLERANCE
    stage.update_weights(1)
    after = stage.manager.generate_sequences(make_batch(CONTENTS, 4, step=2))
    assert stage.largest_difference(after) <= TOLERANCE
    assert set(before.non_tensor_batch["max_global_steps"]) == {0}
    assert set(after.non_tensor_batch["max_global_steps"]) == {1}


def test_verls_advantages_follow_from_the_batch(stage: Stage) -> None:
    """GRPO's own function takes what comes back: each group's advantages add up to nothing."""
    output = stage.manager.generate_sequences(make_batch(CONTENTS, 4))
    mask = output.batch["response_mask"]
    rewards = torch.zeros(mask.shape)
    rewards[:, 0] = torch.tensor([float(len(tokens)) for tokens in responses(output)])
    advantages, _ = compute_grpo_outcome_advantage(
        token_level_rewards=rewards,
        response_mask=mask,
        index=np.asarray(output.non_tensor_batch["uid"]),
        norm_adv_by_std_in_grpo=False,
    )
    per_group = advantages[:, 0].reshape(len(CONTENTS), 4).sum(dim=1)
    assert per_group.tolist() == pytest.approx([0.0] * len(CONTENTS), abs=1e-4)


def test_an_abort_keeps_what_was_generated(stage: Stage) -> None:
    """A replica that is aborted answers with what it has, and waits to be resumed."""
    replica = stage.servers.get_replicas()[0]
    ray.get(replica.server_handle.abort_all_requests.remote())
    params = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}
    asked = {"prompt_ids": [5, 6], "sampling_params": params, "request_id": "a"}
    waiting = replica.server_handle.generate.remote(**asked)
    done, _ = ray.wait([waiting], timeout=0.5)
    assert not done
    ray.get(replica.server_handle.resume_generation.remote())
    assert ray.get(waiting).stop_reason == "completed"
    ray.get(replica.server_handle.abort_all_requests.remote(reject_request=True))
    assert ray.get(replica.server_handle.generate.remote(**asked)).stop_reason == "aborted"
    ray.get(replica.server_handle.resume_generation.remote())


def test_seers_controller_over_seers_engine(scheduled: Stage) -> None:
    """Chunks keep their KV on the replicas, drafts are verified, and all of it is on-policy."""
    output = scheduled.manager.generate_sequences(make_batch(CONTENTS, 4))
    assert scheduled.largest_difference(output) <= TOLERANCE
    router = scheduled.manager.llm_client._load_balancer
    metrics = ray.get(router.metrics.remote())
    assert metrics.num_chunks > len(responses(output))
    assert metrics.reprefilled_tokens == 0
    assert metrics.drafted_tokens > 0


def test_the_same_step_gives_the_same_texts(scheduled: Stage) -> None:
    """Draws are keyed by the seed, the step and the prompt; another step draws others."""
    texts = [
        responses(scheduled.manager.generate_sequences(make_batch(CONTENTS, 4, step=step)))
        for step in (5, 6, 5)
    ]
    assert texts[0] == texts[2] != texts[1]


@pytest.mark.parametrize(
    "key",
    [
        f"{ROLLOUT}.tensor_model_parallel_size=2",
        f"{ROLLOUT}.dtype=float16",
        f"{ROLLOUT}.quantization=fp8",
        f"{ROLLOUT}.logprobs_mode=raw_logits",
        "actor_rollout_ref.model.lora_rank=8",
    ],
)
def test_keys_that_the_engine_cannot_serve_are_refused(make_config: MakeConfig, key: str) -> None:
    """Before anything starts, with the key and what is allowed."""
    config = make_config(*ENGINE_KEYS, key)
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    with pytest.raises(
        InvalidInput, match=key.split("=", maxsplit=1)[0].rsplit(".", maxsplit=1)[-1]
    ):
        engine_spec(rollout, model, read_settings(rollout), "cpu")

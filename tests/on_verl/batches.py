"""Batches as verl's trainer hands them to an agent loop manager."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from verl import DataProto
from verl.utils.import_utils import load_class_from_fqn
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.router import get_router_handle


def make_batch(contents: Sequence[str], n: int, *, step: int = 3, validate: bool = False) -> Any:
    """Each prompt n times in a row, under one uid."""
    rows = [(i, content) for i, content in enumerate(contents) for _ in range(n)]
    prompts = np.empty(len(rows), dtype=object)
    prompts[:] = [[{"role": "user", "content": content}] for _, content in rows]
    return DataProto(
        batch=TensorDict({"dummy": torch.zeros(len(rows), 1)}, batch_size=len(rows)),
        non_tensor_batch={
            "raw_prompt": prompts,
            "uid": np.array([f"uid-{i}" for i, _ in rows], dtype=object),
            "index": np.array([i for i, _ in rows]),
            "data_source": np.array(["digits"] * len(rows), dtype=object),
        },
        meta_info={"global_steps": step, "validate": validate},
    )


def make_manager(config: Any, servers: dict[str, Any]) -> Any:
    """The router and the manager that the configuration names, as verl's trainer makes them."""
    rollout = config.actor_rollout_ref.rollout
    router = get_router_handle(servers=servers, router_config_path=rollout.router_config_path)
    client = LLMServerClient(config=config, load_balancer_handle=router)
    name = rollout.agent.get("agent_loop_manager_class") or (
        "verl.experimental.agent_loop.AgentLoopManager"
    )
    return load_class_from_fqn(name, "AgentLoopManager").create(config=config, llm_client=client)


def responses(output: Any) -> list[list[int]]:
    """Token ids of each row's response, without padding."""
    length = output.batch["responses"].shape[1]
    masks = output.batch["attention_mask"][:, -length:]
    return [
        row[mask.bool()].tolist()
        for row, mask in zip(output.batch["responses"], masks, strict=True)
    ]

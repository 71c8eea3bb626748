"""An agent file for OpenRLHF: its own single turns and reward file, generated through Seer.

Run it by `--train.agent_func_path examples/openrlhf_agent.py` (see openrlhf_grpo.sh). The reward
file is OpenRLHF's: `reward_func(queries, prompts, labels)`; it is named here, since OpenRLHF reads
`--reward.remote_url` only without an agent file.
"""

import os

from openrlhf.utils.agent import SingleTurnAgentExecutor

from seer.trainers.openrlhf.executor import seer_executor

REWARD_FILE = os.environ.get("REWARD_FILE", "reward.py")

AgentExecutor = seer_executor(
    lambda: SingleTurnAgentExecutor(REWARD_FILE),
    policy="context_aware",
    chunk_size=2048,
)

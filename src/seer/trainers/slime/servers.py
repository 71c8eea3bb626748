"""slime's SGLang servers, found through its router, and one chunk on one of them.

HTTP goes through slime's own client (`slime.utils.http_utils`), so its limits and its distributed
posting hold here too. Chunks go to the servers themselves, past the router: Seer places them.
"""

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from slime.utils.http_utils import get, post

from seer.errors import InstanceLost, InvalidInput
from seer.trainers.borrowed.engine import Answer, Ask

_TRIES = 3
"""slime's default is 60; a server that does not answer is lost, and its requests go elsewhere."""
_REGULAR = (None, "regular")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One SGLang server, as Seer's engine number `instance_id`."""

    instance_id: int
    url: str
    skip_special_tokens: bool

    async def __call__(self, ask: Ask) -> Answer:
        """`POST /generate` for one chunk. Raises InstanceLost when the server does not answer."""
        payload = {
            "input_ids": ask.token_ids,
            "sampling_params": self._sampling(ask),
            "return_logprob": True,
        }
        try:
            output = await post(f"{self.url}/generate", payload, max_retries=_TRIES)
        except Exception as error:
            # An answer with an error status has a response; without one the server is gone.
            if getattr(error, "response", None) is not None:
                raise
            raise InstanceLost(self.instance_id, f"{self.url}: {error!r}") from error
        return _answer(output["meta_info"])

    def _sampling(self, ask: Ask) -> dict[str, Any]:
        sampling = ask.sampling
        return {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "max_new_tokens": ask.max_tokens,
            "stop": list(sampling.stop) or None,
            "stop_token_ids": list(sampling.stop_token_ids) or None,
            "skip_special_tokens": self.skip_special_tokens,
            "no_stop_trim": True,
            "spaces_between_special_tokens": False,
        }


def _answer(meta: dict[str, Any]) -> Answer:
    """What SGLang says of a chunk: [log-probability, token id, text] of each token, and the end."""
    finish = meta["finish_reason"]["type"]
    if finish not in ("stop", "length"):
        raise RuntimeError(f"a response was cut off by the server: {meta['finish_reason']}")
    tokens = meta.get("output_token_logprobs", [])
    return Answer(
        token_ids=[token[1] for token in tokens],
        logprobs=[token[0] for token in tokens],
        finish=finish,
        cached_tokens=meta.get("cached_tokens"),
        weight_version=meta.get("weight_version"),
    )


async def find_servers(args: Namespace) -> list[Server]:
    """The servers behind slime's router, by address. Raises InvalidInput without a usable one."""
    router = f"http://{args.sglang_router_ip}:{args.sglang_router_port}"
    workers = (await get(f"{router}/workers"))["workers"]
    kinds = {worker.get("worker_type") for worker in workers}
    if not workers or not kinds.issubset(_REGULAR):
        found = sorted(map(str, kinds))
        raise InvalidInput("workers", found, "allowed: at least one server, all of them regular")
    return [
        Server(instance_id=number, url=url, skip_special_tokens=args.rollout_skip_special_tokens)
        for number, url in enumerate(sorted(worker["url"] for worker in workers))
    ]


async def stated_kv_tokens(servers: list[Server]) -> int | None:
    """KV tokens of the smallest server as they state it; None where one does not."""
    stated: list[int | None] = []
    for server in servers:
        info = await _server_info(server.url)
        stated.append(info.get("max_total_num_tokens"))
    known = [tokens for tokens in stated if tokens]
    return min(known) if len(known) == len(stated) else None


async def _server_info(url: str) -> dict[str, Any]:
    """SGLang's description of itself, whose place has changed; empty when it gives none."""
    for place in ("server_info", "get_server_info"):
        try:
            info: dict[str, Any] = await get(f"{url}/{place}")
        except Exception:  # noqa: BLE001, S112 - an older or newer server
            continue
        return info
    return {}

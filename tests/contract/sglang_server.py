"""SGLang's HTTP endpoints over a scripted model: two servers and slime's router."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.scripted_lm import ScriptedLM

STEP_S = 0.001
"""Time that a token takes."""


class Server:
    """One server; `kill` it, or set what it answers with."""

    def __init__(self, lm: ScriptedLM, number: int, kv_tokens: int | None) -> None:
        self.lm = lm
        self.number = number
        self.kv_tokens = kv_tokens
        self.weight_version = "3"
        self.error: int | None = None
        """HTTP status to answer with."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._lock = threading.Lock()
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def kill(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None: there is no such endpoint."""
        if path == "/generate":
            return self._generate(body)
        if path == "/server_info" and self.kv_tokens is not None:
            return {"max_total_num_tokens": self.kv_tokens}
        return None

    def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        context, sampling = body["input_ids"], body["sampling_params"]
        with self._lock:
            number = self.lm.begin(self.number, context, sampling["max_new_tokens"])
            tokens, values, finish = self.lm.generate(context, sampling["max_new_tokens"])
        time.sleep(STEP_S * len(tokens))
        with self._lock:
            self.lm.end(self.number, number)
        assert body["return_logprob"]
        return {
            "text": "",
            "meta_info": {
                "finish_reason": {"type": finish},
                "output_token_logprobs": [
                    [value, token, None] for value, token in zip(values, tokens, strict=True)
                ],
                "cached_tokens": 0,
                "weight_version": self.weight_version,
            },
        }


class Router:
    """slime's router: it tells where the servers are."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self.worker_type = "regular"

    error: int | None = None

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        del body
        assert path == "/workers"
        kind = self.worker_type
        return {"workers": [{"url": each.url, "worker_type": kind} for each in self.servers]}


@contextmanager
def cluster(lm: ScriptedLM, kv_tokens: int | None = None) -> Iterator[tuple[Router, str, int]]:
    """Two servers and a router: it, its address and its port."""
    servers = [Server(lm, number, kv_tokens) for number in range(2)]
    servers.sort(key=lambda server: server.url)
    router = Router(servers)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(router))
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield router, "127.0.0.1", http.server_port
    finally:
        http.shutdown()
        http.server_close()
        for server in router.servers:
            server.kill()


def _handler(behind: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond({})

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._respond(json.loads(self.rfile.read(length)))

        def log_message(self, *_: Any) -> None:
            pass

        def _respond(self, body: dict[str, Any]) -> None:
            output = None if behind.error else behind.answer(self.path, body)
            self.send_response(behind.error or (404 if output is None else 200))
            self.end_headers()
            self.wfile.write(json.dumps(output).encode())

    return Handler

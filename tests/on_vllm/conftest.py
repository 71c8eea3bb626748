"""What the tests of the vLLM engine share: a tiny model that vLLM for CPUs can run."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3 in float32: its heads are 32 wide, the least that vLLM's kernels take."""
    models = pytest.importorskip("support.tiny_tokenizer", exc_type=ImportError)
    path: Path = models.make_tiny_model_directory(tmp_path_factory.mktemp("tiny"), "qwen3")
    return path

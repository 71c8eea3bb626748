"""How verl finds Seer, and what it is told where something is missing."""

import subprocess
import sys
from importlib import metadata

import pytest

pytest.importorskip("verl")

from seer.errors import EngineFailure, InvalidInput
from seer.trainers.verl import versions
from seer.trainers.verl.settings import read_settings

ROLLOUT_CLASS = "from verl.workers.rollout.base import get_rollout_class; get_rollout_class('seer')"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=250
    )


def test_importing_verl_is_enough() -> None:
    """The entry point registers the engine: no line of the user's names Seer."""
    done = run(f"import verl; {ROLLOUT_CLASS}.__name__ == 'SeerAdapter' or exit(3)")
    assert done.returncode == 0, done.stderr


def test_what_is_missing_is_said_though_verl_swallows_it() -> None:
    """The import of verl goes on, and says why Seer cannot serve; choosing it says so again."""
    code = (
        "from seer.trainers.verl import versions; versions.NEEDED = ('no_such_module',); "
        "import verl; print('imported');"
        "from verl.workers.rollout.replica import get_rollout_replica_class as get; get('seer')"
    )
    done = run(code)
    assert "imported" in done.stdout
    assert "Seer cannot serve verl: not installed here: no_such_module" in done.stderr
    assert "EngineFailure" in done.stderr


def test_an_untried_release_is_refused_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that Seer uses are private or experimental in verl."""
    monkeypatch.setattr(versions, "TRIED", ("0.1.0",))
    with pytest.raises(InvalidInput, match="allow_untried_verl"):
        read_settings({})
    assert read_settings({"custom": {"seer": {"allow_untried_verl": True}}}).allow_untried_verl


def test_no_verl_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how to install it."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(versions.metadata, "version", missing)
    with pytest.raises(EngineFailure, match="pip install"):
        versions.check_verl(allow_untried=True)


@pytest.mark.parametrize(
    "seer",
    [{"chunk_size": 0}, {"chunk_sise": 3}, {"policy": 3}, {"drafting": "much"}, {"kv_tokens": 2}],
)
def test_bad_settings_are_refused(seer: dict[str, object]) -> None:
    """Unknown names, wrong types and values, before anything starts."""
    with pytest.raises(InvalidInput):
        read_settings({"custom": {"seer": seer}})

"""`seer profile`, on a made-up engine and on a tiny real one."""

from pathlib import Path

import pytest

from seer.cli.profile import profile, profile_to
from seer.cli.profile_measure import measure
from seer.cli.profile_plan import ProfilePlan
from seer.cli.profile_report import closing_lines, coefficients_table, steps_table
from seer.costmodel.profile_file import read_profile
from seer.engines.local.spec import LocalSpec
from seer.errors import InvalidInput

PLAN = ProfilePlan(batches=(1, 2, 4), contexts=(64, 256), widths=(1, 2))
SMALL = {"batches": "1,2,4", "contexts": "32,64", "widths": "1,2", "repeats": "2"}


class LinearTimer:
    """An engine whose steps take round times."""

    kv_bytes_per_token = 64.0

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []

    def step_s(self, num_requests: int, context: int, width: int) -> float:
        """10 ms, 1 ms a token and 1 us a token of context."""
        self.asked.append((num_requests, context, width))
        return 0.010 + num_requests * (width * 1e-3 + context * 1e-6)

    def prefill_s(self, num_tokens: int, context: int) -> float:
        """10 ms and half a millisecond a token."""
        del context
        return 0.010 + num_tokens * 5e-4

    def kv_copy_bytes_per_s(self) -> tuple[float, float]:
        """One and two GB/s."""
        return 1e9, 2e9


def test_every_case_is_measured_and_fitted() -> None:
    """All cases in turn, a first round and then the repeats; round times fit exactly."""
    timer = LinearTimer()
    result = measure(PLAN, LocalSpec(model="m"), timer)
    assert len(PLAN.cases) == 12
    assert timer.asked == PLAN.cases * (PLAN.repeats + 1)
    assert result.errors.max_step < 1e-6
    assert result.errors.max_prefill < 1e-6
    assert result.step_time.per_context_token_s == pytest.approx(1e-6)
    assert result.engine.threads == 1


class DisturbedTimer(LinearTimer):
    """The same, with one call in three ten times as long."""

    def step_s(self, num_requests: int, context: int, width: int) -> float:
        """See LinearTimer."""
        seconds = super().step_s(num_requests, context, width)
        return seconds * (10 if len(self.asked) % 3 == 0 else 1)


def test_disturbed_times_do_not_count() -> None:
    """The fastest of several times of a step is the undisturbed one."""
    plan = ProfilePlan(batches=(1, 2), contexts=(64, 256, 512, 900, 1000), widths=(1,), repeats=5)
    assert measure(plan, LocalSpec(model="m"), DisturbedTimer()).errors.max_step < 1e-6


def test_times_that_fit_no_surface_are_refused_with_advice() -> None:
    """One step is always slow: nothing is written, and the message says what may help."""

    class Stuck(LinearTimer):
        def step_s(self, num_requests: int, context: int, width: int) -> float:
            seconds = super().step_s(num_requests, context, width)
            return seconds * (9 if (num_requests, context, width) == (2, 64, 1) else 1)

    with pytest.raises(InvalidInput, match="when it is idle"):
        measure(PLAN, LocalSpec(model="m"), Stuck())


def test_the_report_shows_each_step_and_each_coefficient() -> None:
    """One row a batch and context, one column a width; what was copied and where it is."""
    result = measure(PLAN, LocalSpec(model="m"), LinearTimer())
    table = steps_table(result, PLAN)
    assert (table.row_count, len(table.columns)) == (6, 3)
    assert next(iter(table.columns[1].cells)) == "11.1 (11.1)"
    names = list(coefficients_table(result).columns[0].cells)
    assert {"fixed_s", "per_context_token_s", "prefill_per_token_s"} <= set(map(str, names))
    lines = list(closing_lines(result, "p.json"))
    assert "1.00 GB/s to the pool, 2.00 GB/s back" in lines[1]
    assert lines[2] == "profile: p.json"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"batches": "1,x"}, "batches: got '1,x'"),
        ({"batches": "4"}, "batches"),
        ({"batches": "0,4"}, "batches"),
        ({"contexts": "64,64"}, "contexts"),
        ({"contexts": "-1,64"}, "contexts"),
        ({"widths": "0"}, "widths"),
        ({"batches": "1,2", "contexts": "1,2", "widths": "1"}, "at least 6"),
        ({"threads": "0"}, "threads"),
        ({"threads": "q"}, "threads: got 'q'"),
        ({"repeats": "0"}, "repeats"),
        ({"dtype": "int4"}, "dtype"),
        ({"out": "no/such/directory/p.json"}, "out"),
        ({"model": "no-such-model"}, "model"),
    ],
)
def test_bad_flags_are_refused_before_anything_is_loaded(
    changes: dict[str, str], named: str
) -> None:
    """The message names the flag."""
    with pytest.raises(InvalidInput, match=named):
        profile(**({"model": "nowhere"} | SMALL | changes))


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny Llama with a context of 512 tokens."""
    pytest.importorskip("transformers")
    from support.tiny_models import make_tiny_model  # noqa: PLC0415 - needs torch

    path = tmp_path_factory.mktemp("tiny")
    make_tiny_model("llama", path)
    return str(path)


def test_contexts_beyond_the_models_are_refused(tiny_model: str) -> None:
    """The longest request, prompt chunk included, must fit."""
    with pytest.raises(InvalidInput, match="context of 512"):
        profile(model=tiny_model, contexts="64,400")


def test_kv_that_the_machine_has_no_memory_for_is_refused(tiny_model: str) -> None:
    """Before it is allocated."""
    with pytest.raises(InvalidInput, match="half of the machine"):
        profile(model=tiny_model, batches="1,900000000", contexts="32,64")


def test_a_real_engine_is_timed(tiny_model: str) -> None:
    """Every kind of measurement runs on the real model and takes some time."""
    from seer.engines.local.step_timer import StepTimer  # noqa: PLC0415 - needs torch

    timer = StepTimer.load(tiny_model, "float32", 1, 4 * 352)
    assert timer.step_s(4, 64, 2) > 0
    assert timer.prefill_s(256, 64) > 0
    assert all(speed > 0 for speed in timer.kv_copy_bytes_per_s())


def test_a_profile_is_written_and_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file holds what was measured, and the report says where it is."""
    path = tmp_path / "p.json"
    profile_to(path, PLAN, LocalSpec(model="m"), LinearTimer())
    assert read_profile(path).engine.model == "m"
    assert f"profile: {path}" in capsys.readouterr().out

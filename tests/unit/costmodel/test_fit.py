"""Fitting the surface to measured steps."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from seer.costmodel.fit import fit_errors, fit_surface
from seer.costmodel.nnls import non_negative_least_squares
from seer.costmodel.points import PrefillPoint, StepPoint
from seer.costmodel.step_time import Bend, SurfaceStepTime
from seer.errors import InvalidInput

TRUE = SurfaceStepTime(
    fixed_s=6e-3,
    per_request_s=5e-5,
    per_token_s=1e-4,
    bends=(Bend(above_tokens=16, per_token_s=5e-4),),
    per_context_token_s=1e-6,
    per_attended_token_s=2e-7,
    prefill_per_token_s=6e-4,
    prefill_per_attended_token_s=1e-7,
)


def exactly(seconds: float) -> float:
    return seconds


def measured(noise: Callable[[float], float] = exactly) -> list[StepPoint]:
    """The true surface's times for batches, contexts and widths."""
    return [
        StepPoint(
            num_requests=batch,
            num_tokens=batch * width,
            context_tokens=batch * context,
            seconds=noise(TRUE.step_s(batch, batch * width, batch * context)),
        )
        for batch in (1, 2, 4, 8, 16, 32)
        for context in (64, 512, 1536)
        for width in (1, 2, 4, 8)
    ]


PREFILLS = [
    PrefillPoint(
        num_tokens=tokens,
        context_tokens=context,
        seconds=TRUE.fixed_s + TRUE.prefill_s(tokens, context),
    )
    for tokens in (32, 128, 256)
    for context in (0, 1024)
]


def replaced(points: list[StepPoint], index: int, **changes: float) -> list[StepPoint]:
    fields = {name: getattr(points[index], name) for name in StepPoint.__struct_fields__}
    return [*points[:index], StepPoint(**(fields | changes)), *points[index + 1 :]]


def test_exact_times_give_an_exact_surface() -> None:
    """Where a bend of the truth is a measured count, nothing is left over."""
    errors = fit_errors(fit_surface(measured(), PREFILLS), measured(), PREFILLS)
    assert errors.max_step < 1e-6
    assert errors.max_prefill < 1e-6


def test_noise_leaves_the_surface_near_the_truth() -> None:
    """Times within 5 % give steps that were not measured within 5 %, too."""
    generator = random.Random(3)
    fitted = fit_surface(measured(lambda s: s * generator.uniform(0.95, 1.05)))
    for batch, width, context in ((3, 1, 900), (12, 3, 300), (24, 5, 1200)):
        expected = TRUE.step_s(batch, batch * width, batch * context)
        assert fitted.step_s(batch, batch * width, batch * context) == pytest.approx(
            expected, rel=0.05
        )


def test_one_token_a_request_is_enough() -> None:
    """Without drafts requests and tokens are the same count, and the fit settles on one."""
    points = [p for p in measured() if p.num_requests == p.num_tokens]
    fitted = fit_surface(points)
    assert fit_errors(fitted, points, ()).max_step < 0.02


def test_errors_are_relative() -> None:
    """Twice the predicted time is an error of one half."""
    slow = [replaced(measured(), 0, seconds=measured()[0].seconds * 2)[0]]
    assert fit_errors(TRUE, slow, ()).max_step == pytest.approx(0.5)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_times_are_refused(seconds: float) -> None:
    """A time is a positive number."""
    with pytest.raises(InvalidInput, match="seconds > 0"):
        fit_surface(replaced(measured(), 5, seconds=seconds))


@pytest.mark.parametrize("changes", [{"num_tokens": 0}, {"context_tokens": -1}])
def test_impossible_steps_are_refused(changes: dict[str, float]) -> None:
    """Every running request is fed a token."""
    with pytest.raises(InvalidInput, match="points"):
        fit_surface(replaced(measured(), 5, **changes))


def test_different_times_of_the_same_step_contradict() -> None:
    """Beyond a factor of two the same work cannot have both."""
    again = replaced(measured(), 0, seconds=measured()[0].seconds * 2.5)[0]
    with pytest.raises(InvalidInput, match="contradicts another time of the same work"):
        fit_surface([*measured(), again])


def test_repeated_measurements_are_welcome() -> None:
    """The same step a little slower is noise."""
    again = replaced(measured(), 0, seconds=measured()[0].seconds * 1.1)[0]
    fit_surface([*measured(), again])


def test_a_point_that_fits_no_surface_is_named() -> None:
    """A step five times as long as its neighbours say."""
    broken = replaced(measured(), 40, seconds=measured()[40].seconds * 5)
    with pytest.raises(InvalidInput, match="contradicts the other points"):
        fit_surface(broken)


def test_too_few_points_are_refused() -> None:
    """Different steps count, repetitions do not."""
    with pytest.raises(InvalidInput, match="5 different steps"):
        fit_surface(measured()[:5] * 4)


@pytest.mark.parametrize("field", ["num_requests", "context_tokens"])
def test_what_never_varies_cannot_be_fitted(field: str) -> None:
    """One batch size, or one context, says nothing of others."""
    value = {"num_requests": 8, "context_tokens": 512}[field]
    points = [p for p in measured() if getattr(p, field) == value]
    points += [
        StepPoint(
            num_requests=8 if field == "num_requests" else n,
            num_tokens=64 + n,
            context_tokens=512 if field == "context_tokens" else 100 * n,
            seconds=0.02,
        )
        for n in range(1, 9)
    ]
    with pytest.raises(InvalidInput, match=f"one {field} only"):
        fit_surface(points)


def test_least_squares_are_least_and_not_negative() -> None:
    """The conditions of Karush, Kuhn and Tucker hold, with dependent columns too."""
    generator = np.random.default_rng(1)
    for trial in range(60):
        matrix = generator.normal(size=(20, 6))
        if trial % 3 == 0:
            matrix[:, 5] = matrix[:, 4]
        target = generator.normal(size=20)
        x = non_negative_least_squares(matrix, target)
        gain = matrix.T @ (target - matrix @ x)
        assert (x >= 0).all()
        assert (gain < 1e-7).all()
        assert np.abs(gain[x > 0]).max(initial=0.0) < 1e-7

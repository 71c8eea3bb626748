"""Fitting SurfaceStepTime to measured steps: least squares of relative errors, nothing negative."""

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from seer.costmodel.nnls import non_negative_least_squares
from seer.costmodel.points import PrefillPoint, StepPoint, check_points
from seer.costmodel.step_time import Bend, SurfaceStepTime
from seer.errors import InvalidInput

MAX_BENDS = 4
MAX_ERROR = 0.6
"""Relative error of a point beyond which the points are held to contradict each other."""

Matrix = NDArray[np.float64]


class FitErrors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """|predicted / measured - 1| over the fitted points; zeros where there are none."""

    max_step: float
    median_step: float
    max_prefill: float
    median_prefill: float


def fit_surface(
    steps: Sequence[StepPoint],
    prefills: Sequence[PrefillPoint] = (),
    *,
    max_error: float | None = MAX_ERROR,
) -> SurfaceStepTime:
    """The surface nearest to the points.

    Raises InvalidInput when the points are too few, impossible or contradict each other, be it
    directly or because no surface comes within `max_error` of all of them (None: any may be taken).
    """
    check_points(steps, prefills)
    fitted = _with_prefill(_fit_steps(steps), prefills)
    if max_error is not None:
        _check_agreement("points", steps, _step_errors(fitted, steps), max_error)
        errors = _prefill_errors(fitted, prefills)
        _check_agreement("prefill_points", prefills, errors, max_error)
    return fitted


def fit_errors(
    step_time: SurfaceStepTime, steps: Sequence[StepPoint], prefills: Sequence[PrefillPoint]
) -> FitErrors:
    """How far a surface is from points."""
    of_steps, of_prefills = _step_errors(step_time, steps), _prefill_errors(step_time, prefills)
    return FitErrors(
        max_step=float(of_steps.max(initial=0.0)),
        median_step=float(np.median(of_steps)) if len(of_steps) else 0.0,
        max_prefill=float(of_prefills.max(initial=0.0)),
        median_prefill=float(np.median(of_prefills)) if len(of_prefills) else 0.0,
    )


def _fit_steps(steps: Sequence[StepPoint]) -> SurfaceStepTime:
    """Columns: 1, requests, tokens by segment between bends, context, attended pairs a request."""
    requests, tokens, context = np.array([p.work for p in steps], dtype=np.float64).T
    bends = _bend_positions(tokens)
    edges = [0.0, *bends, np.inf]
    segments = [np.clip(tokens - low, 0.0, high - low) for low, high in itertools.pairwise(edges)]
    matrix = np.stack(
        [np.ones_like(tokens), requests, context, context * tokens / requests, *segments], axis=1
    )
    fixed, per_request, per_context, per_attended, *slopes = _relative_fit(
        matrix, np.array([p.seconds for p in steps])
    )
    return SurfaceStepTime(
        fixed_s=fixed,
        per_request_s=per_request,
        per_token_s=slopes[0],
        bends=tuple(
            Bend(above_tokens=at, per_token_s=slope)
            for at, slope in zip(bends, slopes[1:], strict=True)
        ),
        per_context_token_s=per_context,
        per_attended_token_s=per_attended,
    )


def _bend_positions(tokens: Matrix) -> list[float]:
    """Every other measured token count between the least and the most, thinned to MAX_BENDS.

    So each segment has points inside it, and few different counts give few bends.
    """
    between = np.unique(tokens)[1:-1][1::2]
    if len(between) > MAX_BENDS:
        between = between[np.linspace(0, len(between) - 1, MAX_BENDS).round().astype(int)]
    return [float(count) for count in between]


def _with_prefill(fitted: SurfaceStepTime, prefills: Sequence[PrefillPoint]) -> SurfaceStepTime:
    """Prefill coefficients on top of the fixed part that the steps gave."""
    if not prefills:
        return fitted
    tokens, context = np.array([p.work for p in prefills], dtype=np.float64).T
    matrix = np.stack([tokens, tokens * (context + tokens / 2)], axis=1)
    seconds = np.array([p.seconds for p in prefills])
    per_token, per_attended = _relative_fit(matrix, seconds, seconds - fitted.fixed_s)
    return msgspec.structs.replace(
        fitted, prefill_per_token_s=per_token, prefill_per_attended_token_s=per_attended
    )


def _relative_fit(matrix: Matrix, seconds: Matrix, target: Matrix | None = None) -> list[float]:
    """Coefficients whose errors are least in relation to `seconds`."""
    goal = (seconds if target is None else target) / seconds
    return [float(x) for x in non_negative_least_squares(matrix / seconds[:, None], goal)]


def _step_errors(step_time: SurfaceStepTime, steps: Sequence[StepPoint]) -> Matrix:
    predicted = [step_time.step_s(*map(float, p.work)) for p in steps]
    return _relative_errors(predicted, [p.seconds for p in steps])


def _prefill_errors(step_time: SurfaceStepTime, prefills: Sequence[PrefillPoint]) -> Matrix:
    predicted = [step_time.fixed_s + step_time.prefill_s(*map(float, p.work)) for p in prefills]
    return _relative_errors(predicted, [p.seconds for p in prefills])


def _relative_errors(predicted: Sequence[float], measured: Sequence[float]) -> Matrix:
    errors: Matrix = np.abs(np.array(predicted) / np.array(measured) - 1.0)
    return errors


def _check_agreement(
    field: str,
    points: Sequence[StepPoint] | Sequence[PrefillPoint],
    errors: Matrix,
    max_error: float,
) -> None:
    if len(points) and errors.max() > max_error:
        worst = points[int(errors.argmax())]
        raise InvalidInput(
            field,
            worst,
            f"contradicts the other points: the nearest surface is {errors.max():.0%} off "
            f"(allowed: {max_error:.0%})",
        )

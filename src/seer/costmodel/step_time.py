"""Step time of one instance: T(requests, verified tokens, context tokens) and its fitted form.

The paper's T(B, gamma) and D(B, gamma) (section 3.4.1) with the context made explicit, since in
long rollouts most of a step goes into reading KV. Seconds and tokens throughout; plain floats,
because a simulated rollout asks some 10^6 times.
"""

import math
from typing import Protocol

import msgspec

from seer.errors import InvalidInput


def require_non_negative(values: msgspec.Struct) -> None:
    """Raise InvalidInput, naming the field, unless every number of `values` is finite and >= 0."""
    for name in values.__struct_fields__:
        value = getattr(values, name)
        if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
            raise InvalidInput(name, value, "allowed: a finite number >= 0")


class StepTime(Protocol):
    """How long the steps of one instance take.

    All three are linear in `context_tokens` while the other arguments stay: the sum over steps that
    each add `num_requests` tokens of context is one evaluation at the mean context.
    """

    def step_s(self, num_requests: float, num_tokens: float, context_tokens: float) -> float:
        """Seconds of one decode step on one instance.

        `num_requests` are running; `num_tokens` are fed in all (verified tokens; = `num_requests`
        without drafts); `context_tokens` KV tokens are read in all (sum over requests).
        step_s(0, 0, 0) is the fixed part, which a step that only prefills pays as well.
        """
        ...

    def prefill_s(self, num_tokens: float, context_tokens: float) -> float:
        """Seconds that computing `num_tokens` prompt (or recomputed) tokens of a request adds.

        `context_tokens` of the request precede them and have KV already.
        """
        ...

    def draft_s(self, num_requests: float, num_draft_tokens: float) -> float:
        """Seconds of drafting `num_draft_tokens` in all for `num_requests` requests in a step."""
        ...


class Bend(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the price of one more token changes, e.g. from memory bound to compute bound."""

    above_tokens: float
    per_token_s: float
    """Seconds of each token beyond `above_tokens`."""


class DraftCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """D(B, gamma): seconds of drafting in a step, zero without draft tokens.

    A suffix tree costs per request and token; a draft model costs a pass over its weights for each
    draft position (`per_position_s`, times draft tokens a request) besides.
    """

    fixed_s: float = 0.0
    per_request_s: float = 0.0
    per_position_s: float = 0.0
    per_token_s: float = 0.0

    def __post_init__(self) -> None:
        require_non_negative(self)

    def seconds(self, num_requests: float, num_draft_tokens: float) -> float:
        """Seconds of drafting `num_draft_tokens` in all for `num_requests` requests."""
        if num_requests <= 0 or num_draft_tokens <= 0:
            return 0.0
        return (
            self.fixed_s
            + self.per_request_s * num_requests
            + self.per_position_s * (num_draft_tokens / num_requests)
            + self.per_token_s * num_draft_tokens
        )


class SurfaceStepTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Step time as a few named coefficients, all in seconds; what `seer profile` fits.

    T = fixed + per_request·n + rows(t) + per_context_token·c + per_attended_token·c·t/n, where
    rows(t) is piecewise linear: slope `per_token_s` up to the first bend, then each bend's own.
    Raises InvalidInput on a negative or infinite coefficient and on bends out of order.
    """

    fixed_s: float
    """Overhead of a step and one read of the weights."""
    per_request_s: float = 0.0
    per_token_s: float = 0.0
    """Seconds a token fed, up to the first bend."""
    bends: tuple[Bend, ...] = ()
    per_context_token_s: float = 0.0
    """Reading one KV token."""
    per_attended_token_s: float = 0.0
    """Attention of one fed token to one KV token."""
    prefill_per_token_s: float = 0.0
    prefill_per_attended_token_s: float = 0.0
    """Attention of one prefilled token to one KV token."""
    draft: DraftCost = DraftCost()

    def __post_init__(self) -> None:
        require_non_negative(self)
        last = 0.0
        for bend in self.bends:
            require_non_negative(bend)
            if bend.above_tokens <= last:
                raise InvalidInput(
                    "bends", [each.above_tokens for each in self.bends], "allowed: ascending, > 0"
                )
            last = bend.above_tokens

    def step_s(self, num_requests: float, num_tokens: float, context_tokens: float) -> float:
        """See StepTime."""
        seconds = self.fixed_s + self.per_request_s * num_requests + self.rows_s(num_tokens)
        if num_requests <= 0:
            return seconds
        attended_s = self.per_attended_token_s * (num_tokens / num_requests)
        return seconds + context_tokens * (self.per_context_token_s + attended_s)

    def rows_s(self, num_tokens: float) -> float:
        """Seconds of the linear layers for `num_tokens` rows, beyond what no token costs."""
        seconds, slope, start = 0.0, self.per_token_s, 0.0
        for bend in self.bends:
            if num_tokens <= bend.above_tokens:
                break
            seconds += slope * (bend.above_tokens - start)
            slope, start = bend.per_token_s, bend.above_tokens
        return seconds + slope * (num_tokens - start)

    def prefill_s(self, num_tokens: float, context_tokens: float) -> float:
        """See StepTime."""
        attended = num_tokens * (context_tokens + num_tokens / 2)
        return self.prefill_per_token_s * num_tokens + self.prefill_per_attended_token_s * attended

    def draft_s(self, num_requests: float, num_draft_tokens: float) -> float:
        """See StepTime."""
        return self.draft.seconds(num_requests, num_draft_tokens)

"""The errors that Seer raises.

SeerError
├── InvalidInput     a value that the user gave (also ValueError)
├── InstanceLost     the engine process behind an instance is gone (also ConnectionError)
├── EngineFailure    an engine reported an error of its own (also RuntimeError)
├── RolloutCancelled the rollout was cancelled before the awaited group finished
└── TraceMismatch    replaying a trace gave other actions than it records
"""

_SHOWN_CHARACTERS = 200
"""Most characters of a bad value that a message repeats."""


class SeerError(Exception):
    """Base of every error that Seer raises on purpose."""


class InvalidInput(SeerError, ValueError):
    """A value given by the user is not allowed: names the field, the value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        shown = repr(self.value)
        if len(shown) > _SHOWN_CHARACTERS:
            shown = shown[:_SHOWN_CHARACTERS] + "..."
        return f"{self.field}: got {shown}; {self.allowed}"


class InstanceLost(SeerError, ConnectionError):
    """An instance died or stopped answering; its chunks go on elsewhere."""

    def __init__(self, instance_id: int, why: str) -> None:
        super().__init__(instance_id, why)
        self.instance_id = instance_id
        self.why = why

    def __str__(self) -> str:
        return f"instance {self.instance_id} lost: {self.why}"


class EngineFailure(SeerError, RuntimeError):
    """An engine could not do what it was asked, and is still alive to say why."""


class RolloutCancelled(SeerError, RuntimeError):
    """The rollout was cancelled before what was awaited had finished."""


class TraceMismatch(SeerError, AssertionError):
    """A replayed trace gave other actions than it records (first difference in the message)."""

"""The display of a running rollout, on a terminal and elsewhere."""

import io

from msgspec.structs import replace
from rich.console import Console

from seer.cli.display import open_display, plain_line
from seer.rollout.results import InstanceProgress, RolloutProgress

STATE = RolloutProgress(
    elapsed_s=12.0,
    num_requests=64,
    num_finished_requests=60,
    num_groups=8,
    num_finished_groups=5,
    num_output_tokens=3000,
    instances=(
        InstanceProgress(
            instance_id=0,
            is_alive=True,
            num_in_flight=3,
            used_kv_tokens=1024,
            kv_capacity_tokens=4096,
        ),
    ),
    acceptance_length=1.0,
    preemptions=0,
    instances_lost=0,
    tail_s=3.0,
)


def show(*states: RolloutProgress, terminal: bool) -> str:
    output = io.StringIO()
    with open_display(Console(file=output, force_terminal=terminal, width=100), "title") as update:
        for state in states:
            update(state)
    return output.getvalue()


def test_plain_line_says_all() -> None:
    """One line has requests, groups, speed, tail, and every instance's KV and running requests."""
    line = plain_line(STATE)
    for part in ("60/64", "5/8", "250 tokens/s", "tail 3s", "KV [25%]", "running [3]"):
        assert part in line


def test_lost_instance_is_shown() -> None:
    """An instance that is gone shows no KV share."""
    gone = replace(STATE.instances[0], is_alive=False)
    state = replace(STATE, instances=(gone,))
    assert "KV [lost]" in plain_line(state)
    assert "lost, starting again" in show(state, terminal=True)


def test_pipe_gets_a_line_every_few_seconds_and_the_last_state() -> None:
    """States in quick succession make one line; the last one is never left out."""
    states = [
        replace(STATE, elapsed_s=second, num_finished_requests=int(second))
        for second in (1.0, 5.0, 6.0, 7.0)
    ]
    lines = show(*states, terminal=False).splitlines()
    assert [line.split()[0] for line in lines] == ["title", "5.0s", "7.0s"]


def test_terminal_gets_a_panel() -> None:
    """A terminal is redrawn in place and shows each instance."""
    output = show(STATE, terminal=True)
    assert "instance 0" in output
    assert "\x1b[" in output

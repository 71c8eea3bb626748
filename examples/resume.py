"""A rollout that is killed after its first group, and goes on where it was.

Run: `python examples/resume.py` (needs the extra `local`).
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

OUT = Path("out/resume")
PROMPTS = OUT.with_suffix(".jsonl")
QUESTIONS = ("Name three rivers.", "What is 17 + 25?", "Write a haiku about rain.")
LIMITS = ["--group-size", "4", "--max-tokens", "32", "--kv-tokens", "1024", "--format", "jsonl"]
EXACT = ["--dtype", "float32"]  # in which scheduling changes no text
COMMAND = [
    sys.executable,
    "-m",
    "seer.cli.main",
    "rollout",
    "--prompts",
    str(PROMPTS),
    *LIMITS,
    *EXACT,
]


def main() -> None:
    """Kill a rollout, resume it, and compare it with one that nobody killed."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    PROMPTS.write_text("".join(f'{{"prompt": "{question}"}}\n' for question in QUESTIONS))
    killed, whole = OUT / "killed", OUT / "whole"
    print(f"killed with {groups_when_killed(killed)} of {len(QUESTIONS)} groups finished")
    subprocess.run([*COMMAND, "--out", str(killed), "--resume"], check=True)  # noqa: S603
    subprocess.run([*COMMAND, "--out", str(whole)], check=True)  # noqa: S603
    is_same = texts(killed) == texts(whole)
    print("the same texts as without the kill:", is_same)


def groups_when_killed(out: Path) -> int:
    """Start a rollout and kill it when a group is in its journal; the number of groups there."""
    journal = out / "completions.jsonl.part"
    with subprocess.Popen([*COMMAND, "--out", str(out)]) as running:  # noqa: S603
        while running.poll() is None and num_lines(journal) < 2:  # noqa: PLR2004 - header, group
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    return num_lines(journal) - 1


def num_lines(path: Path) -> int:
    """Whole lines of a file; 0 without one."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def texts(out: Path) -> list[str]:
    """The lines of a rollout's responses, without the times in them."""
    rows = map(json.loads, (out / "completions.jsonl").read_text().splitlines())
    return sorted(f"{row['prompt_id']} {row['member']} {row['text']}" for row in rows)


if __name__ == "__main__":
    main()

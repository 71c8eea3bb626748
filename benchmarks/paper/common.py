"""What the scripts here share: simulate cases over seeds, keep their rows, print a table.

All figures are simulated. Options of every script:

    --seeds N     simulated iterations with different lengths (default 5)
    --jobs N      processes (default 2)
    --rows FILE   rows that are there are not simulated again, new ones are added; several scripts
                  may share one file. Delete it when the simulator or its calibration changes.
    --json FILE   the entries of the table, and the rows behind them
    --plot PATH   a picture, or the directory for several; needs matplotlib (the extra `report`)
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean

import msgspec

from seer.simulator.experiment import Case, Drafting, Setting, prepare_case, simulate
from seer.simulator.simulation import Fault

BASELINE = "group_round_robin"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a row: equal keys, equal rows."""

    workload: str
    policy: str
    drafting: Drafting = "off"
    group_size: int | None = None
    """None: the paper's main runs'."""
    chunk_size: int = 2048
    seed: int = 0
    variant: str = ""
    """What a sweep has changed."""

    def case(self) -> Case:
        """The case to simulate, before a sweep changes its setting."""
        return Case(
            workload=self.workload,
            policy=self.policy,
            drafting=self.drafting,
            group_size=self.group_size,
            chunk_size=self.chunk_size,
            seed=self.seed,
        )


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one simulated iteration came to."""

    key: Key
    throughput_tokens_per_s: float
    total_time_s: float
    tail_time_s: float
    preemptions: int
    idle_share: float
    """Of the total time, after an instance's last chunk, averaged over instances."""
    finish_gap_share: float
    """Between the first and the last instance to finish, of the total time."""
    mean_running: float
    """Requests in flight an instance."""
    kv_bytes_moved: int
    cpu_s: float
    """What simulating it took."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table: the paper's number beside ours."""

    name: str
    values: tuple[float, ...]
    """Ours, one a seed."""
    paper: float | None = None
    of_means: float | None = None
    """For a ratio: that of the means over seeds, next to the mean of the seeds' ratios."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The command line."""

    seeds: int
    jobs: int
    rows: str | None
    json: str | None
    plot: str | None


class _Output(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    simulated: bool
    seeds: int
    entries: list[Entry]
    rows: list[Row]


def parse_options(description: str, seeds: int = 5) -> Options:
    """The options above."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows")
    parser.add_argument("--json")
    parser.add_argument("--plot")
    return Options(**vars(parser.parse_args()))


def simulate_key(key: Key) -> Row:
    """The setting of the paper's workload, unchanged."""
    case = key.case()
    return measure(key, prepare_case(case))


def measure(key: Key, setting: Setting, faults: Sequence[Fault] = ()) -> Row:
    """Simulate a key in a setting that has been made for it."""
    begin = time.process_time()
    result = simulate(key.case(), setting, faults=faults)
    metrics = result.metrics
    return Row(
        key=key,
        throughput_tokens_per_s=metrics.throughput_tokens_per_s,
        total_time_s=metrics.total_time_s,
        tail_time_s=metrics.tail_time_s,
        preemptions=metrics.preemptions,
        idle_share=result.idle_share,
        finish_gap_share=result.finish_gap_share,
        mean_running=metrics.mean_running / setting.cluster.num_instances,
        kv_bytes_moved=metrics.kv_bytes_moved,
        cpu_s=time.process_time() - begin,
    )


def simulate_all(
    keys: Iterable[Key], options: Options, run: Callable[[Key], Row] = simulate_key
) -> dict[Key, Row]:
    """A row a key. `run` is a function of a module, as processes call it."""
    wanted = dict.fromkeys(keys)
    rows = {key: row for key, row in _stored(options.rows).items() if key in wanted}
    missing = [key for key in wanted if key not in rows]
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run, key) for key in missing]
        for number, future in enumerate(as_completed(futures), 1):
            row = future.result()
            rows[row.key] = row
            _store(options.rows, row)
            print(f"{number} of {len(missing)}: {row.key}", file=sys.stderr, flush=True)
    return {key: rows[key] for key in wanted}


def ratio_entry(
    name: str,
    over: Sequence[Row],
    under: Sequence[Row],
    paper: float | None = None,
    field: str = "throughput_tokens_per_s",
) -> Entry:
    """Rows over rows of the same seeds."""
    tops, bottoms = ([getattr(row, field) for row in rows] for rows in (over, under))
    return Entry(
        name=name,
        values=tuple(top / bottom for top, bottom in zip(tops, bottoms, strict=True)),
        paper=paper,
        of_means=fmean(tops) / fmean(bottoms),
    )


def report(title: str, entries: list[Entry], rows: Iterable[Row], options: Options) -> None:
    """Print the table; write the JSON file if one is asked for."""
    print(f"{title} (ours: simulated, mean and range over {options.seeds} seeds)\n")
    print(markdown(entries))
    if options.json:
        output = _Output(
            title=title, simulated=True, seeds=options.seeds, entries=entries, rows=list(rows)
        )
        Path(options.json).write_bytes(msgspec.json.format(msgspec.json.encode(output)) + b"\n")


def markdown(entries: Sequence[Entry]) -> str:
    """The table, without a column that nothing has."""
    has_paper = any(entry.paper is not None for entry in entries)
    has_ratio = any(entry.of_means is not None for entry in entries)
    head = ["", "simulated", "range"]
    head += ["ratio of means"] if has_ratio else []
    head += ["paper", "simulated / paper"] if has_paper else []
    lines = [head, ["---"] + ["--:"] * (len(head) - 1)]
    for entry in entries:
        mean = fmean(entry.values)
        cells = [entry.name, short(mean), f"{short(min(entry.values))}-{short(max(entry.values))}"]
        cells += [short(entry.of_means)] if has_ratio else []
        if has_paper:
            over = mean / entry.paper if entry.paper else None
            cells += [short(entry.paper), short(over)]
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def short(value: float | None) -> str:
    """Two decimals below 10, whole numbers above."""
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"  # noqa: PLR2004 - the docstring


def _stored(name: str | None) -> dict[Key, Row]:
    if name is None or not Path(name).exists():
        return {}
    lines = Path(name).read_bytes().splitlines()
    return {row.key: row for row in (msgspec.json.decode(line, type=Row) for line in lines)}


def _store(name: str | None, row: Row) -> None:
    if name is not None:
        with Path(name).open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")

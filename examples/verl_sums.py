"""Data and reward of examples/verl_grpo.sh: sums of small numbers, for verl.

`python examples/verl_sums.py DIRECTORY` writes train.parquet and test.parquet there; verl loads
`compute_score` from this file.
"""

import re
import sys
from pathlib import Path

from pyarrow import Table, parquet


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: object = None, **_: object
) -> float:
    """1 if the last number of the response is the sum, else 0."""
    del data_source, extra_info
    numbers = re.findall(r"-?\d+", solution_str)
    return float(bool(numbers) and numbers[-1] == ground_truth)


def make_rows(count: int, seed: int) -> list[dict[str, object]]:
    """Rows in the form that verl's dataset reads."""
    rows: list[dict[str, object]] = []
    for index in range(count):
        a, b = (17 * index + 5 * seed) % 50, (31 * index + 11 * seed) % 50
        question = f"What is {a} + {b}? Answer with the number alone."
        rows.append(
            {
                "data_source": "sums",
                "prompt": [{"role": "user", "content": question}],
                "reward_model": {"style": "rule", "ground_truth": str(a + b)},
                "extra_info": {"index": index},
            }
        )
    return rows


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, count, seed in (("train", 256, 1), ("test", 64, 2)):
        table = Table.from_pylist(make_rows(count, seed))
        parquet.write_table(table, directory / f"{name}.parquet")

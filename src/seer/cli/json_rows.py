"""The file of `--json`: one JSON line a row, there as soon as the row is known."""

from collections.abc import Iterable
from pathlib import Path

from seer.cli.completions import encode_json
from seer.errors import InvalidInput


class JsonRows:
    """Rows of a command in the file that `--json` names, if it names one."""

    def __init__(self, name: str | None) -> None:
        """Empties the file, so that a bad path is refused before anything runs.

        Raises InvalidInput when it cannot be written.
        """
        self._path = None if name is None else Path(name)
        if self._path is None:
            return
        try:
            self._path.write_bytes(b"")
        except OSError as error:
            allowed = f"allowed: a file that can be written ({error})"
            raise InvalidInput("json", name, allowed) from error

    def append(self, rows: Iterable[object]) -> None:
        """Add rows behind those that are there; nothing without a file."""
        if self._path is not None:
            with self._path.open("ab") as file:
                file.writelines(encode_json(row) + b"\n" for row in rows)

"""Where words for people go: stderr, one line each. Results go to stdout."""

import typer


def tell(line: str) -> None:
    """Say what is being done."""
    typer.echo(f"seer: {line}", err=True)

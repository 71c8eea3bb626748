"""The command `seer`, and the one place where its errors become lines and exit codes."""

import sys

import typer

from seer.cli.bench import run_bench
from seer.cli.check import CheckSettings, run_check
from seer.cli.cluster import app as cluster_app
from seer.cli.flags import settings_command
from seer.cli.messages import tell
from seer.cli.model import prepare_default_model
from seer.cli.profile import profile
from seer.cli.report import make_report, show_trace
from seer.cli.rollout import run_rollout
from seer.cli.settings import BenchSettings, RolloutSettings
from seer.cli.simulate import SimulateSettings, run_simulate
from seer.cli.train import run_train
from seer.cli.train_settings import train_command
from seer.errors import InvalidInput, SeerError

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    help="Fast, lossless, synchronous rollouts for LLM reinforcement learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("rollout")(settings_command(RolloutSettings, run_rollout))
app.command("bench")(settings_command(BenchSettings, run_bench))
app.command("profile")(profile)
app.command("report")(make_report)
app.command("trace")(show_trace)
app.command("check")(settings_command(CheckSettings, run_check))
app.command("train")(train_command(run_train))
app.add_typer(cluster_app, name="cluster")
app.command("simulate")(settings_command(SimulateSettings, run_simulate))


@app.command("model")
def prepare_model() -> None:
    """Prepare the default model if it is not there, and print its directory."""
    typer.echo(prepare_default_model())


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    sys.exit(run())


def run(arguments: list[str] | None = None) -> int:
    """Carry out a command line (the process's own by default); returns the exit code."""
    try:
        return app(arguments, standalone_mode=False) or 0
    except InvalidInput as error:
        return _fail(str(error), EXIT_BAD_INPUT)
    except typer.TyperException as error:
        return _fail(str(error), EXIT_BAD_INPUT)
    except SeerError as error:
        return _fail(str(error), EXIT_FAILED)


def _fail(message: str, code: int) -> int:
    tell(" ".join(message.split()))
    return code


if __name__ == "__main__":
    main()

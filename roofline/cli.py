"""The `roofline` command: a group whose sub-commands are loaded only when they are run.

Exit codes: 0 done, 2 bad usage, 3 device or backend not usable, 4 file unreadable or unwritable, 5 output check failed,
6 the user's model failed, 7 a ceiling is missing, 130 interrupted (what was measured is saved), 1 anything else.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from roofline import __version__
from roofline.errors import RooflineError

COMMANDS = {
    "probe": "Measure what this device can really do.",
    "env": "Show which devices and backends are usable here, and why the others are not.",
    "place": "Place every layer of a model under the ceilings of a machine.",
    "plot": "Draw the rooflines of one or several machines.",
    "machines": "Compare the ceilings of two machines.",
    "predict": "Predict how long a model takes on other machines.",
    "compare": "Explain why one machine beats another on a model.",
}
INTERRUPTED = 130


class LazyGroup(click.Group):
    """Loads `roofline.commands.<name>` when `<name>` is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all sub-commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command of that name."""
        return import_module(f"roofline.commands.{cmd_name}").command if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the sub-commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=__doc__.split("\n\n")[1])
@click.version_option(__version__, prog_name="roofline")
def group() -> None:
    """Roofline profiler for PyTorch: measured ceilings, layers placed under them, why one GPU beats another."""


def main(arguments: list[str] | None = None, *, prog: str = "roofline") -> None:
    """Run the command line and exit with its code; a RooflineError becomes one line on stderr."""
    try:
        group.main(args=arguments, prog_name=prog, standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    except RooflineError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)

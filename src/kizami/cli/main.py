"""The `kizami` command: one module a verb, loaded only when it is called."""

from __future__ import annotations

from kizami.cli import early_signals  # noqa: F401

# isort: split
import importlib
import keyword
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import click

from kizami import __version__
from kizami.cli.exit_codes import FAILURE, INTERRUPTED, OK, USAGE, exit_code
from kizami.cli.options import SuggestingGroup
from kizami.core.errors import KizamiError
from kizami.core.redaction import KNOWN

# verb -> what it does, in the order of `kizami --help`; the verb's module is kizami.cli.verbs.<verb>.
VERBS = {
    "up": "Run the whole pipeline on this machine.",
    "status": "Show how the collection is doing.",
    "targets": "Check and list what is polled.",
    "try": "Ask a target once and show every step.",
    "query": "Show a metric's records.",
    "chart": "Draw a metric in the terminal.",
    "gaps": "List the slots that nobody has collected.",
    "backfill": "Collect past slots.",
    "dead-letters": "List, retry or forget the slots that were given up.",
    "alerts": "Show incidents, take them on, try receivers.",
    "export": "Write records as CSV, JSON lines or Parquet.",
    "sql": "Ask the records in SQL.",
    "backup": "Copy the database while it is used.",
    "restore": "Put a backup in the database's place.",
    "aggregate": "Grant users detected today a point, and show points.",
    "doctor": "Check this machine and every target.",
    "init": "Write a commented kizami.toml.",
    "recipes": "List ready-made targets, or show one.",
    "cost": "Estimate the monthly bill on AWS.",
    "dashboard": "Serve the dashboard over a database.",
    "mock": "Serve the mock AI employee API.",
    "completion": "Print the completion script of your shell.",
}


class VerbGroup(SuggestingGroup):
    """Finds a verb in its own module, so that `kizami --help` and every verb start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module_name = name.replace("-", "_") + "_" * keyword.iskeyword(name)
        module = importlib.import_module(f"kizami.cli.verbs.{module_name}")
        command: click.Command = module.command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        verb = next((each for each in args if each in VERBS), None)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if verb is None:
                raise
            name = error.option_name
            problem = f"{name} stands before the verb; options follow it: kizami {verb} {name}"
            raise click.UsageError(problem, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            outcome = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever reads our output has had enough of it, as `head` does: that is no failure.
            _drop_output()
            return OK
        return outcome

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kizami")
def kizami() -> None:
    """Poll HTTP APIs on a sub-minute schedule and keep exactly one record for every time slot."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; a user's mistake is one line on stderr, never a traceback."""
    _prepare_output()
    _hide_secrets()
    try:
        outcome = kizami.main(args=arguments, prog_name="kizami", standalone_mode=False)
        sys.exit(outcome if isinstance(outcome, int) else OK)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(USAGE)
    except click.ClickException as error:
        click.echo(f"kizami: {one_line(error)}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except KizamiError as error:
        click.echo(f"kizami: {error}", err=True)
        sys.exit(exit_code(error))
    except OSError as error:  # stdout is a file on a full disk, most likely: adapters translate their own
        _drop_output()
        click.echo(f"kizami: {error}", err=True)
        sys.exit(FAILURE)


def _prepare_output() -> None:
    """Let every text be written, whatever the locale, and also where there is no stdout or stderr at all."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _hide_secrets() -> None:
    """Neither a proxy's password nor a secret of a target in what the interpreter itself says of an error."""
    KNOWN.add_proxies(os.environ)
    sys.excepthook = lambda kind, error, trace: _show_fault(error)
    threading.excepthook = lambda about: _show_fault(about.exc_value)


def _show_fault(error: BaseException | None) -> None:
    if error is not None and not isinstance(error, SystemExit):
        sys.stderr.write(KNOWN.hide("".join(traceback.format_exception(error))))


def _drop_output() -> None:
    """What is still to be written goes nowhere, so that nothing complains on the way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(error: click.ClickException) -> str:
    """What Click has to say, in one line, and for a usage error the help to read."""
    problem = " ".join(error.format_message().split()).removesuffix(".")
    if not isinstance(error, click.UsageError):
        return problem
    return f"{problem} (see {error.ctx.command_path if error.ctx else 'kizami'} --help)"


if __name__ == "__main__":
    main()

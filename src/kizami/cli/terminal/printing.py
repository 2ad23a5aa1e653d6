"""How a verb speaks: data to stdout, words to stderr; and how it writes instants, ages and shares."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from kizami.backend.times.zones import zoned_text
from kizami.backend.values import DaemonState
from kizami.cli.options import Decorator
from kizami.cli.ranges import TimeRange
from kizami.cli.shown_zone import shown_zone
from kizami.core.coverage import Completeness
from kizami.core.slots import format_second

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

NOTHING_DUE = "no slot is due in this range"


def say(words: str) -> None:
    """A line for the person, on stderr."""
    click.echo(f"kizami: {words}", err=True)


def unwritable(path: Path, error: OSError) -> click.ClickException:
    """What is wrong with a file that cannot be written, and what helps."""
    folder = path.absolute().parent
    if not folder.exists():
        return click.ClickException(f"{path}: there is no directory {folder}; make it first")
    return click.ClickException(f"{path}: cannot be written: {error.strerror}")


def print_json(document: Any) -> None:
    """The document on stdout: indented for a terminal, one line for a program."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(document, ensure_ascii=False, indent=indent))


def instant_text(instant: datetime | None) -> str:
    """For people: cut to the second, in the zone asked for; a dash where there is none."""
    return "-" if instant is None else zoned_text(instant, shown_zone())


def age_text(age: timedelta | float) -> str:
    """How long ago, in its two largest units: 4s, 2m 5s, 3h 20m, 6d 1h."""
    seconds = int(age.total_seconds() if isinstance(age, timedelta) else age)
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    units = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    parts: list[str] = []
    for size, unit in units:
        if seconds >= size or (unit == "s" and not parts):
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return sign + " ".join(parts[:2])


def percent_text(ratio: float) -> str:
    """Never 100% unless it is whole."""
    return "100%" if ratio >= 1 else f"{int(ratio * 1000) / 10:.1f}%"


def completeness_text(completeness: Completeness) -> str:
    """`719/720 (99.8%)`."""
    return f"{completeness} ({percent_text(completeness.ratio)})"


def stored_words(completeness: Completeness, daemon: DaemonState | None) -> str:
    """How complete a range is; of nothing, nothing is complete. The `daemon` counts for a range up to now."""
    words = f"{completeness_text(completeness)} slots stored" if completeness.expected else nothing_due(daemon)
    if completeness.stored or (not completeness.expected and is_down(daemon)):
        return words
    return f"{words}; `kizami status` says how the collection is doing"


def nothing_due(daemon: DaemonState | None) -> str:
    """No slot is due, which is no good news where nothing is collected."""
    return f"nothing is collected: `kizami up` is not running; {NOTHING_DUE}" if is_down(daemon) else NOTHING_DUE


def is_down(daemon: DaemonState | None) -> bool:
    """Return True if there should be a daemon, as there is none on AWS, and it does not run."""
    return daemon is not None and not daemon.is_running


def range_fields(time_range: TimeRange) -> dict[str, str]:
    """A range in JSON, cut to the second."""
    return {"from": format_second(time_range.start), "to": format_second(time_range.end)}


def plural(number: int, noun: str) -> str:
    """`1 slot`, `2 slots`, `1,234 slots`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

"""How far a copy of the database has come, as a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from kizami.cli.terminal.colours import is_terminal
from kizami.local.copies.copying import Progress


@contextmanager
def page_progress(label: str) -> Iterator[Progress]:
    """What is told of the pages that are copied, of how many; nothing is shown where stderr is no terminal."""
    hidden = not is_terminal(sys.stderr)
    with click.progressbar(length=1, label=label, show_percent=True, file=sys.stderr, hidden=hidden) as bar:

        def show(done: int, pages: int) -> None:
            bar.length = pages
            bar.update(done - bar.pos)

        yield show

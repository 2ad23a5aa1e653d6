"""Which kinds of installation the question about slots is tested on: a new one adds itself to KINDS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from aws_here.row_stack import AWS_ROWS
from kizami.core.answers.numbers import Number
from kizami.core.targets.target import Target
from samples.aws_installation import AWS_TICKS
from samples.installation import CALLS, START, Ability, Installation, Kind
from samples.one_machine import one_machine

KINDS = (Kind("one-machine", one_machine), AWS_TICKS, AWS_ROWS)
LATER = START + timedelta(hours=6)  # no live message of the first hours is on its way any more
LONG_AFTER = START + timedelta(days=10)  # also spans of a day are over

Answered = tuple[str, datetime, Number]


class Layout(Enum):
    """How stored slots lie in an installation."""

    OPEN = "open"  # as they were collected
    SEALED = "sealed"
    LATE = "late"  # every third one came after the rest was sealed
    MERGED = "merged"  # and was sealed then, too

    def fill(self, installation: Installation, answers: Sequence[Answered]) -> None:
        """Store answers of the first hours so; the clock is then far enough for every question."""
        installation.move_to(LATER)
        late = [] if self in (Layout.OPEN, Layout.SEALED) else answers[::3]
        for each in answers if not late else [each for number, each in enumerate(answers) if number % 3]:
            installation.store(*each)
        if self is not Layout.OPEN:
            installation.move_to(LONG_AFTER)
            installation.seal()
        for each in late:
            installation.store(*each)
        if self is Layout.MERGED:
            installation.seal()


def layouts_of(kind: Kind) -> list[Layout]:
    """Return the layouts that a kind can have."""
    return list(Layout) if Ability.SEAL in kind.abilities else [Layout.OPEN]


def on_kinds(*needs: Target | Ability) -> pytest.MarkDecorator:
    """Make a test, whose parameter is `kind`, for each kind that has these targets and abilities."""
    able = [kind for kind in KINDS if kind.has((CALLS, *needs))]
    return pytest.mark.parametrize("kind", able, ids=[kind.name for kind in able])


def on_layouts(*needs: Target | Ability) -> pytest.MarkDecorator:
    """Make a test, whose parameters are `kind` and `layout`, for each layout of each of these kinds."""
    able = [(kind, layout) for kind in KINDS if kind.has((CALLS, *needs)) for layout in layouts_of(kind)]
    ids = [f"{kind.name}-{layout.value}" for kind, layout in able]
    return pytest.mark.parametrize(("kind", "layout"), able, ids=ids)


@contextmanager
def opened(kind: Kind) -> Iterator[Installation]:
    """Provide an empty installation of a kind, gone at the end: for a property, which needs one an example."""
    with TemporaryDirectory() as folder, kind.open(Path(folder)) as installation:
        yield installation

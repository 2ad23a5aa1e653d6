"""Which kinds of installation the question about slots is tested on: a new one adds itself to KINDS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kizami.core.targets.target import Target
from samples.installation import CALLS, Ability, Installation, Kind
from samples.one_machine import one_machine

KINDS = (Kind("one-machine", one_machine),)


def on_kinds(*needs: Target | Ability) -> pytest.MarkDecorator:
    """Make a test, whose parameter is `kind`, for each kind that has these targets and abilities."""
    able = [kind for kind in KINDS if kind.has((CALLS, *needs))]
    return pytest.mark.parametrize("kind", able, ids=[kind.name for kind in able])


@contextmanager
def opened(kind: Kind) -> Iterator[Installation]:
    """Provide an empty installation of a kind, gone at the end: for a property, which needs one an example."""
    with TemporaryDirectory() as folder, kind.open(Path(folder)) as installation:
        yield installation

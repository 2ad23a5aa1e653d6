"""Colours and bold type, where a person looks at a terminal that has not asked for plain text."""

from __future__ import annotations

import os
import sys
from typing import IO, Literal

import click

Colour = Literal["green", "yellow", "red", "bright_black"]


def emphasized(text: str) -> str:
    """The text in bold, if there is a terminal for it."""
    return click.style(text, bold=True) if is_styled() else text


def coloured(text: str, colour: Colour | None) -> str:
    """The text in this colour, likewise."""
    return click.style(text, fg=colour) if colour and is_styled() else text


def is_styled() -> bool:
    """Whether stdout is a terminal that takes colours (https://no-color.org)."""
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person looks at it, on a terminal that can do more than print lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"

"""Words that a user would have to guess at: they stand in no document, no help and no text of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kizami.cli.main import kizami

ROOT = Path(__file__).parents[2]
INSTEAD = {
    r"\bseeds?\b(?!=)": "the original design (docs/requirements.md explains it)",
    r"\bin hand\b": "in flight",
    r"\bare delayed\b|label=.delayed|.delayed.:": "planned",
    r"\bwoken\b": "say when a person is to be alerted",
    r"\ban invocation;|\b(messages?|Messages) an invocation": "per invocation",
}


# Dialect that a reader has to read twice. The README is free of it; the other documents follow.
DIALECT = (
    r"\b(who|whoever|whom|nobody|somebody|anybody|is told|are told|told of|lacking|anew|besides|is asked for)\b"
)
DIALECT += r"|way of the data|\brooms\b|\bhomes?\b"
README_LINES = 100


def helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """The help of a verb and of those below it."""
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if below := command.get_command(context, name):
                yield from helps(below, click.Context(below, context, name))


def texts() -> Iterator[tuple[str, str]]:
    documents = [*ROOT.glob("docs/*.md"), *ROOT.glob("README*.md"), ROOT / "CHANGELOG.md"]
    page = [*ROOT.glob("src/kizami/web/view/words/*.toml"), *ROOT.glob("src/kizami/web/view/templates/*")]
    assert len(page) > 2
    for path in (*documents, *page, ROOT / "infra/dashboard.py"):
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    yield from helps(kizami, click.Context(kizami, info_name="kizami"))


def searched(word: str) -> Iterator[tuple[str, str]]:
    """All texts; but what a simulator draws its faults from has no other name than seed."""
    return (text for text in texts() if not ("seed" in word and text[0] == "docs/reliability.md"))


@pytest.mark.parametrize("word", INSTEAD)
def test_no_text_for_users_has_the_word(word: str) -> None:
    found = [
        (place, match[0]) for place, text in searched(word) if (match := re.search(word, text, re.IGNORECASE))
    ]
    assert not found, f"write instead: {INSTEAD[word]}"


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_readme_is_short_and_plain(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert len(text.splitlines()) <= README_LINES
    assert [match[0] for match in re.finditer(DIALECT, text, re.IGNORECASE)] == []

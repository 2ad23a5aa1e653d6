"""New texts from those that are kept: pieces cut out, doubled, put in from others, or hostile by themselves."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

LONGEST = 20_000
_MOST_CHANGES = 5
_WORD = re.compile(r"\w+|[^\w\s]+|\s+")
HOSTILE = (
    *("", " ", "\n", "\r\n", "\0", "\x1b[2J", "\ufeff", "\ud800", "\u2028", "\u202e", "９", "٣", "é", "応", "😀"),
    *(
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        "'",
        "`",
        ",",
        ":",
        ";",
        "=",
        "!=",
        "=~",
        "\\",
        "\\u0000",
        "\\ud800",
        "|",
    ),
    *("%", "%00", "%zz", "~", "~2", "/", "//", "..", "*", "+", "-", "#", "$", "@", "--", "/*", "&", "?", "<", ">"),
    *(
        "NaN",
        "Infinity",
        "-0",
        "0",
        "1e400",
        "1e-400",
        "-1",
        "true",
        "null",
        "None",
        "9" * 5000,
        "0x" + "f" * 3000,
    ),
    *(
        "2**53",
        "9007199254740992",
        "T24:00:00",
        "+99:99",
        "W53-7",
        "60",
        "2025-02-29",
        "0000-00-00",
        "99999d",
        "1y",
    ),
    *("[" * 2000, "(" * 3000, '{"a":' * 2000, "(?:" * 50, "a|" * 1500, ".*" * 500, "-" * 4000, "{from" * 200),
)


def mutated(chance: random.Random, corpus: Sequence[str]) -> str:
    """One of the corpus, changed a few times."""
    text = chance.choice(corpus)
    for _ in range(chance.randint(1, _MOST_CHANGES)):
        text = chance.choice(_CHANGES)(chance, text, corpus)[:LONGEST]
    return text


def mutations(seed: int, corpus: Sequence[str]) -> Iterator[str]:
    """Texts without end; the same for the same seed."""
    chance = random.Random(seed)
    while True:
        yield mutated(chance, corpus)


def _piece(chance: random.Random, text: str) -> tuple[int, int]:
    """Where some words of it are, or some characters."""
    if not text:
        return 0, 0
    if chance.random() < 0.5 and (words := [match.span() for match in _WORD.finditer(text)]):
        first = chance.randrange(len(words))
        return words[first][0], words[min(len(words) - 1, first + chance.randrange(3))][1]
    start = chance.randrange(len(text))
    return start, min(len(text), start + chance.randrange(12))


def _cut(chance: random.Random, text: str, corpus: Sequence[str]) -> str:
    start, end = _piece(chance, text)
    return text[:start] + text[end:]


def _double(chance: random.Random, text: str, corpus: Sequence[str]) -> str:
    start, end = _piece(chance, text)
    return text[:end] + text[start:end] * chance.choice((1, 1, 2, 200)) + text[end:]


def _put(chance: random.Random, text: str, corpus: Sequence[str]) -> str:
    start, end = _piece(chance, text)
    return text[:start] + chance.choice(HOSTILE) + text[chance.choice((start, end)) :]


def _splice(chance: random.Random, text: str, corpus: Sequence[str]) -> str:
    other = chance.choice(corpus)
    (start, end), (first, last) = _piece(chance, text), _piece(chance, other)
    return text[:start] + other[first : max(last, chance.randrange(len(other) + 1))] + text[end:]


def _change_character(chance: random.Random, text: str, corpus: Sequence[str]) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chr(chance.choice((chance.randrange(128), chance.randrange(0x11000)))) + text[at + 1 :]


def _change_number(chance: random.Random, text: str, corpus: Sequence[str]) -> str:
    found = list(re.finditer(r"\d+", text))
    if not found:
        return text
    match = chance.choice(found)
    number = chance.choice(("0", "-1", "1", "59", "60", "86401", "2147483648", "9223372036854775808", "1.5", "00"))
    return text[: match.start()] + number + text[match.end() :]


_CHANGES = (_cut, _double, _put, _put, _splice, _change_character, _change_number)

"""Regular expressions of label matchers, as far as they can be told in time that grows with the name's length.

A backtracking engine can be kept busy for ever by a short pattern, and with it the collecting in the same
process. So only these are taken: literals, `.`, classes, `.*` and `.+`, groups and alternatives. Grouped
alternatives are multiplied out; what is left between wildcards has a fixed length and is found from the left.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten

MAX_CHARACTERS = 2_000
MAX_ALTERNATIVES = 1_000
MAX_ELEMENTS = 5_000  # of all alternatives together

_ANY, _STAR = ".", ".*"
_WIDE_ESCAPES = "dDwWsS"
_WIDE = {f"\\{letter}" for letter in _WIDE_ESCAPES}

Sequence = tuple[str, ...]  # regular expressions of one character each, and wildcards


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of fixed length."""

    pattern: re.Pattern[str]
    length: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """Alternatives; each is a row of pieces with anything between one and the next."""

    alternatives: tuple[tuple[Piece, ...], ...]

    @property
    def cost(self) -> int:
        """What one match costs, in values looked at."""
        return 10 * sum(len(pieces) for pieces in self.alternatives)

    def matches(self, text: str) -> bool:
        """Whether the whole of the text is one of the alternatives."""
        return any(_matches(pieces, text) for pieces in self.alternatives)


def _matches(pieces: tuple[Piece, ...], text: str) -> bool:
    first, *others = pieces
    if not others:
        return first.pattern.fullmatch(text) is not None
    *middle, last = others
    if first.pattern.match(text) is None:
        return False
    place = first.length
    for piece in middle:
        found = piece.pattern.search(text, place)
        if found is None:
            return False
        place = found.end()
    start = len(text) - last.length
    return start >= place and last.pattern.fullmatch(text, start) is not None


def compile_pattern(text: str) -> Pattern:
    """The pattern that `text` writes, else InvalidInput."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput("query", f"a pattern is longer than {MAX_CHARACTERS:,} characters")
    reader = _Reader(text)
    sequences = reader.alternatives()
    reader.expect_end()
    return Pattern(tuple(_pieces(sequence) for sequence in sequences))


def _pieces(sequence: Sequence) -> tuple[Piece, ...]:
    parts: list[list[str]] = [[]]
    for element in sequence:
        if element == _STAR:
            parts.append([])
        else:
            parts[-1].append(element)
    return tuple(Piece(re.compile("".join(part), re.DOTALL), len(part)) for part in parts)


class _Reader:
    """Reads alternatives of sequences of elements, groups multiplied out."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0

    def alternatives(self) -> list[Sequence]:
        found = self._sequence()
        while self._next() == "|":
            self._place += 1
            found += self._sequence()
            self._limit(len(found))
            self._limit_elements(found)
        return found

    def expect_end(self) -> None:
        if self._next():
            raise self._fault("has a ) too many")

    def _sequence(self) -> list[Sequence]:
        found: list[Sequence] = [()]
        while self._next() not in ("", "|", ")"):
            element = self._element()
            self._limit(len(found) * len(element))
            found = [before + after for before, after in product(found, element)]
            self._limit_elements(found)
        return found

    def _element(self) -> list[Sequence]:
        character = self._next()
        if character == "(":
            return self._group()
        if character in "*+?{":
            raise self._fault("repeats something; only .* and .+ are understood here")
        if character == ".":
            return [self._wildcard()]
        if character in "^$":
            return [self._anchor()]
        if character == "[":
            return [(self._character_class(),)]
        if character == "\\":
            return [(self._escape(),)]
        self._place += 1
        return [(re.escape(character),)]

    def _group(self) -> list[Sequence]:
        self._depth += 1
        if self._depth > 20:
            raise self._fault("is nested too deeply")
        self._place += 3 if self._text.startswith("(?:", self._place) else 1
        found = self.alternatives()
        if self._next() != ")":
            raise self._fault("has a ( without its )")
        self._place += 1
        self._depth -= 1
        return found

    def _wildcard(self) -> Sequence:
        self._place += 1
        if self._next() == "*":
            self._place += 1
            return (_STAR,)
        if self._next() == "+":
            self._place += 1
            return (_ANY, _STAR)
        return (_ANY,)

    def _anchor(self) -> Sequence:
        """The whole is matched anyway; anywhere else an anchor makes no sense."""
        if self._place != (0 if self._next() == "^" else len(self._text) - 1):
            raise self._fault("has an anchor in its middle")
        self._place += 1
        return ()

    def _character_class(self) -> str:
        """Written anew, for Python reads some of what may stand in a class in a way of its own."""
        self._place += 1
        negated = self._next() == "^"
        self._place += negated
        members = [self._member()]  # a ] that stands first is one of them
        while self._next() != "]":
            members.append(self._member())
        self._place += 1
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _member(self) -> str:
        """A character of a class, or several: a-z, \\d."""
        first = self._class_character()
        if self._next() != "-" or self._text.startswith("-]", self._place):
            return first
        self._place += 1
        last = self._class_character()
        if {first, last} & _WIDE or first[-1] > last[-1]:
            raise self._fault("has a [ that is not a class of characters")
        return f"{first}-{last}"

    def _class_character(self) -> str:
        if not self._next() or self._text.startswith("[:", self._place):
            raise self._fault("has a [ that is not a class of characters")
        if self._next() == "\\":
            return self._escape()
        self._place += 1
        return re.escape(self._text[self._place - 1])

    def _escape(self) -> str:
        escaped = self._text[self._place + 1 : self._place + 2]
        self._place += 2
        if escaped in _WIDE_ESCAPES and escaped:
            return "\\" + escaped
        if not escaped or escaped.isalnum():
            raise self._fault("has an escape that is not understood")
        return re.escape(escaped)

    def _next(self) -> str:
        return self._text[self._place : self._place + 1]

    def _limit(self, alternatives: int) -> None:
        if alternatives > MAX_ALTERNATIVES:
            raise self._fault(f"has more than {MAX_ALTERNATIVES:,} alternatives")

    def _limit_elements(self, sequences: list[Sequence]) -> None:
        if sum(map(len, sequences)) > MAX_ELEMENTS:
            raise self._fault(f"has more than {MAX_ELEMENTS:,} characters with its groups multiplied out")

    def _fault(self, problem: str) -> InvalidInput:
        return InvalidInput("query", f"the pattern {shorten(self._text)} {problem}")

"""Where each value of an answer was found, for whoever writes a target (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kizami.core.answers.answer import Answer
from kizami.core.answers.nearest import json_words, path_text, quoted
from kizami.core.answers.numbers import Exact, exact_text
from kizami.core.answers.values import Expression, evaluate, matches_of
from kizami.core.errors import ApiPayloadError

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A part of an answer, and what stands there."""

    pointer: str
    words: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An expression, the places it leads to (the first few of so many), and the number that they make."""

    expression: str
    places: tuple[Place, ...]
    total: int
    number: str

    def __str__(self) -> str:
        if len(self.places) == self.total == 1 and self.places[0].pointer == self.expression:
            return f"{self.expression or 'the body'} is {self.number}"
        each = [f"{place.pointer or 'the body'} is {place.words}" for place in self.places]
        more = [f"… {self.total - len(each):,} more"] if self.total > len(each) else []
        return f"{self.expression} is {self.number}: {', '.join([*each, *more]) or 'nothing is there'}"


def find_values(answer: Answer, document: Any, headers: Mapping[str, str]) -> list[Finding]:
    """Where the values stand, as far as they can be read."""
    findings = []
    for expression in answer.expressions:
        try:
            number = evaluate(expression, document, headers, answer.zero_if_missing)
            findings.append(_finding(expression, document, answer.zero_if_missing, number))
        except ApiPayloadError:
            continue  # whoever reads the answer says why
    return findings


def _finding(expression: Expression, document: Any, absent: Expression | None, number: Exact) -> Finding:
    text = exact_text(number)
    if expression.header is not None:
        return Finding(expression.text, (Place(expression.text, text),), 1, text)
    matches = list(matches_of(expression, document, absent))
    places = tuple(_place(expression, path, value) for path, value in islice(matches, _SHOWN))
    return Finding(expression.text, places, len(matches), text)


def _place(expression: Expression, path: tuple[str, ...], value: Any) -> Place:
    is_itself = not expression.function and path == expression.steps
    words = f"an array of {len(value):,}" if isinstance(value, list) else json_words(value)
    return Place(expression.text if is_itself else quoted(path_text(path)), words)

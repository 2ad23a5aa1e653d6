"""What each recipe's API is documented to be asked and to answer, read from tests/recipes/answers.

A file has the window that is asked for, the request that must come of it, answers with the values that must be
read from them, and answers that must be refused. The shapes are documented, the values made up.
`{NAME}` in a header stands for the secret called NAME, and `Basic user:{NAME}` for that in base64.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kizami.core.slots import Window, parse_instant

ANSWERS = Path(__file__).parents[1] / "recipes" / "answers"

_ADDRESS = re.compile(r'^((?:token_)?url = ")https?://[^/"]+', re.MULTILINE)
_REFERENCE = re.compile(r'"(env|file):([^"]+)"')


@dataclass(frozen=True)
class DocumentedRequest:
    """What must be sent; a query is compared without its order, a JSON body without its layout."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class DocumentedAnswer:
    """What comes back, and the values in it by metric; or why it must be refused."""

    status: int
    headers: dict[str, str]
    body: bytes
    values: dict[str, int | str] | None
    why: str | None


@dataclass(frozen=True)
class Documented:
    """One recipe's API."""

    window: Window
    request: DocumentedRequest
    token: Mapping[str, Any] | None
    answers: list[DocumentedAnswer]
    refused: list[DocumentedAnswer]


@cache
def documented(name: str) -> Documented:
    """What tests/recipes/answers says of a recipe."""
    stated = json.loads((ANSWERS / f"{name}.json").read_text("utf-8"))
    start, end = map(parse_instant, stated["window"])
    return Documented(
        Window(start, end),
        _request(stated["request"]),
        stated.get("token"),
        list(map(_answer, stated["answers"])),
        list(map(_answer, stated["refused"])),
    )


def _request(stated: Mapping[str, Any]) -> DocumentedRequest:
    query = [(name, value) for name, value in stated.get("query", [])]
    headers = {name.lower(): _header(value) for name, value in stated.get("headers", {}).items()}
    body = stated["text"] if "text" in stated else stated.get("body")
    return DocumentedRequest(stated["method"], stated["path"], query, headers, body)


def _header(value: str) -> str:
    value = re.sub(r"\{(\w+)\}", lambda match: secret_of(match[1]), value)
    scheme, _, pair = value.partition(" ")
    return f"Basic {base64.b64encode(pair.encode()).decode()}" if scheme == "Basic" else value


def _answer(stated: Mapping[str, Any]) -> DocumentedAnswer:
    text = stated["text"] if "text" in stated else json.dumps(stated["body"])
    headers = stated.get("headers", {})
    return DocumentedAnswer(stated["status"], headers, text.encode(), stated.get("values"), stated.get("why"))


def secret_of(name: str) -> str:
    """The secret that tests keep under a name."""
    return f"secret-of-{name}"


def referenced(text: str) -> list[tuple[str, str]]:
    """Where a recipe has its secrets: `env` and the variable, or `file` and the path."""
    return _REFERENCE.findall(text)


def pointed_at(url: str, text: str) -> str:
    """The recipe with every address in it, that of tokens too, replaced by `url`."""
    return _ADDRESS.sub(lambda match: match[1] + url, text)

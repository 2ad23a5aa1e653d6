"""The description of the mock API, a constant that the package carries as a file."""

from __future__ import annotations

import os
from functools import cache


@cache
def openapi_document() -> bytes:
    """The OpenAPI document, read once."""
    with open(os.path.join(os.path.dirname(__file__), "openapi.json"), "rb") as document:
        return document.read()

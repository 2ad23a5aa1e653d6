"""What the tests of the rules build their houses with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Path]:
    """Makes a tree of files: `build({"src/kizami/core/slots.py": "import os"})`."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        return tmp_path

    return write

"""The command line with the mock API at another port than 3000, which any other program of the machine may have.

Run as `python tests/programs/mock_elsewhere.py PORT VERB …`; `command_for` gives that command.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from kizami.core.targets import target


def command_for(port: int) -> list[str]:
    """`kizami` for a test that needs the mock API at its usual place."""
    return [sys.executable, str(Path(__file__)), str(port)]


def move_to(port: int) -> None:
    """The usual place is this one from now on, for whatever is imported later."""
    target.MOCK_API_URL = f"http://127.0.0.1:{port}"
    target.SEED_TARGET = replace(target.SEED_TARGET, url=target.MOCK_API_URL)

    from kizami.mock_api import server

    server.DEFAULT_PORT = port


if __name__ == "__main__":
    move_to(int(sys.argv.pop(1)))

    from kizami.cli.main import main

    main()

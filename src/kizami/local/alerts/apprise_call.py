"""A message handed to Apprise in a process of its own, which is ended if it takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from kizami.local.alerts import apprise_program
from kizami.local.alerts.calls import Undelivered

TIMEOUT_SECONDS = 60.0
REMEDY = "Apprise is not installed; pip install 'kizami[alerts]'"
_LACKS = {
    apprise_program.NO_APPRISE: REMEDY,
    apprise_program.NO_SERVICE: "it is no URL of a service that Apprise knows",
}


def has_apprise() -> bool:
    """Whether it is installed; it is not loaded."""
    return find_spec("apprise") is not None


def knows_url(url: str) -> bool:
    """Whether Apprise has a service for the URL."""
    return has_apprise() and _ended({"url": url}, TIMEOUT_SECONDS)[0] == 0


def send(url: str, title: str, body: str, kind: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Have it delivered, else Undelivered; the URL stands in no argument, for others can read those."""
    code, words = _ended({"url": url, "title": title, "body": body, "kind": kind}, timeout_seconds)
    if code:
        raise Undelivered(_LACKS.get(code) or words or f"Apprise ended with {code}")


def _ended(order: dict[str, str], timeout_seconds: float) -> tuple[int, str]:
    program = [sys.executable, "-P", str(Path(apprise_program.__file__))]
    try:
        ended = subprocess.run(
            program,
            input=json.dumps(order).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_seconds,
            start_new_session=True,  # Ctrl-C is for who started us: a message on its way goes on
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Undelivered(f"no answer within {timeout_seconds:g} s") from None
    except OSError as error:
        raise Undelivered(f"Apprise cannot be started: {error.strerror or error}") from None
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return ended.returncode, lines[-1] if lines else ""

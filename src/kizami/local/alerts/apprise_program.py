"""A program of its own that hands one message to Apprise: it may hang or crash without harm to who started it.

It reads a JSON object from stdin: `url`, and `title`, `body` and `kind` of the message, or no title to find out
only whether Apprise knows the URL. It ends with 0 if that is so, or if the message was taken.
"""

from __future__ import annotations

import json
import logging
import sys

REFUSED, NO_APPRISE, NO_SERVICE = 1, 3, 4


def run() -> int:
    """Do what stdin says."""
    order = json.load(sys.stdin)
    try:
        import apprise
    except ImportError:
        return NO_APPRISE
    lines = _Lines()
    logging.getLogger("apprise").addHandler(lines)
    service = apprise.Apprise.instantiate(order["url"])
    if service is None:
        return NO_SERVICE
    if "title" not in order:
        return 0
    # As text: a service that takes HTML, as e-mail does, gets its lines and whatever an API has said as they are.
    services = apprise.Apprise([service])
    text = apprise.NotifyFormat.TEXT
    if services.notify(order["body"], title=order["title"], notify_type=order["kind"], body_format=text):
        return 0
    sys.stderr.write(" ".join(" ".join(lines.words).split())[-500:] or "the service did not take it")
    return REFUSED


class _Lines(logging.Handler):
    """Keeps what Apprise says of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())


if __name__ == "__main__":
    sys.exit(run())

"""Signals that come while `kizami up` is still starting: noted from the first import on, obeyed when it can."""

from __future__ import annotations

import signal
import sys
from types import FrameType

EARLY_SIGNALS: list[int] = []


def _note(number: int, frame: FrameType | None) -> None:
    EARLY_SIGNALS.append(number)


# At the import, because those that follow take longer than all else: SIGHUP would end the process meanwhile,
# and Ctrl-C would show a traceback.
if sys.argv[1:2] == ["up"]:
    for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(_number, _note)

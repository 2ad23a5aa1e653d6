"""Finds the machine's own Chromium; nothing is downloaded."""

from __future__ import annotations

import shutil

# The headless shell is the same engine without the browser's own windows, and takes a fifth less CPU.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
REMEDY = "apt-get install chromium-headless-shell fonts-noto-cjk (or chromium)"


def find_chromium() -> str | None:
    """Return the path of the first browser that is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)

"""What a running daemon polls, and whether that is what a file says.

`kizami up` writes it into the file of its lock, where it counts for as long as the lock is held. Verbs and pages
compare it with the file that they read themselves.
"""

from __future__ import annotations

from pathlib import Path

from kizami.local.daemon_lock import About, Holder
from kizami.platform.config_file import LoadedConfig
from kizami.platform.config_watch import ConfigWatch


def running_config(watch: ConfigWatch) -> About:
    """What a daemon tells: the file in force and its version, where it looks for one, and why that is refused."""
    settings = watch.in_force
    return {
        "path": str(settings.path.absolute()) if settings.path else None,
        "digest": settings.digest,
        "watched": str(watch.path.absolute()),
        "refusal": watch.refusal,
    }


def difference(daemon: Holder | None, settings: LoadedConfig) -> str | None:
    """One line if the running daemon polls something else than these settings say, or refused its file."""
    about = daemon.about if daemon else None
    if about is None:
        return None
    process, running = "the running `kizami up`", about.get("path")
    is_same_place = settings.path is None or _is_same(settings.path, about.get("watched"))
    if (refusal := about.get("refusal")) and is_same_place:
        return f"{process} goes on with its last configuration, because the file is refused: {refusal}"
    if about.get("digest") == settings.digest:
        return None
    if settings.path is None:
        return f"{process} polls what {running} says; add --config {running} to see its targets"
    if not is_same_place:
        polled = f"what {running} says" if running else "the built-in target"
        remedy = f"start it again with --config {settings.path}"
        return f"{process} polls {polled}, not what {settings.path} says; {remedy}"
    if running is None:
        return f"{process} polls the built-in target and has not taken {settings.path} yet"
    return f"{process} has not taken the newest {settings.path} yet"


def _is_same(path: Path, other: str | None) -> bool:
    return other is not None and path.resolve() == Path(other).resolve()

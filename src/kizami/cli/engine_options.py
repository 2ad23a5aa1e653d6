"""The limits of the engine, as flags of `kizami up` and as environment variables for all who collect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kizami.local.engine.options import Options

_DEFAULTS = Options()
_COUNT, _SECONDS = click.IntRange(1, 50_000), click.FloatRange(0.01, 3600)
_AGE = click.IntRange(0, 31 * 86_400)


def _limit(flag: str, kind: click.ParamType[Any], words: str) -> click.Option:
    name = flag.removeprefix("--").replace("-", "_")
    return click.Option(
        [flag],
        type=kind,
        default=getattr(_DEFAULTS, name),
        envvar=f"KIZAMI_{name.upper()}",
        show_default=True,
        show_envvar=True,
        help=words,
    )


def _limits() -> list[click.Option]:
    return [
        _limit("--max-in-flight", _COUNT, "Requests in flight at once."),
        _limit("--max-per-host", _COUNT, "Requests in flight at once to one host."),
        _limit("--receive-limit", _COUNT, "Attempts before a slot becomes a dead letter."),
        _limit("--retry-seconds", _SECONDS, "The wait before attempt two; then 4, 16 … times it."),
        _limit("--visibility-seconds", _SECONDS, "How long a message in flight is hidden."),
        _limit("--backfill-per-second", _COUNT, "Retries and backfill a second, at most."),
        _limit("--seal-after-seconds", _AGE, "How long stored slots stay as they are before they are sealed."),
    ]


def limit_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the flags; to be used before `click.command`."""
    known = verb.__dict__.setdefault("__click_params__", [])
    known.extend(reversed(_limits()))
    return verb


def options_of_environment() -> Options:
    """The limits that `kizami up` would have here without a flag; a usage error for a value that cannot be."""
    context = click.Command("limits", params=[*_limits()]).make_context("limits", [])
    return Options(**context.params)

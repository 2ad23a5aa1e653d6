"""Metrics as the command line names them: found, suggested, and completed by the shell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import click

from kizami.backend.figures.selection import targets_meant
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.cli.backends import BackendOptions
from kizami.cli.options import Decorator
from kizami.core.errors import InvalidInput, KizamiError
from kizami.core.slots import shorten
from kizami.core.targets.unknown_names import near_names
from kizami.platform.config_file import DEFAULT_DATABASE


def _complete(context: click.Context, argument: click.Parameter, incomplete: str) -> list[str]:
    if context.params.get("backend") == "aws":
        return []  # nobody waits for a network while typing
    options = BackendOptions(context.params.get("config"), context.params.get("database") or DEFAULT_DATABASE)
    try:
        with options.opened(quiet=True) as backend:
            return [name for name in backend.names() if name.startswith(incomplete)]
    except KizamiError:
        return []  # nothing to suggest; the verb itself will say why


metric_argument: Decorator = click.argument("metric", shell_complete=_complete)
optional_metric_argument: Decorator = click.argument("metric", required=False, shell_complete=_complete)
some_metrics_argument: Decorator = click.argument(
    "metrics", metavar="METRIC...", nargs=-1, required=True, shell_complete=_complete
)
metrics_argument: Decorator = click.argument("metrics", metavar="[METRIC]...", nargs=-1, shell_complete=_complete)


def find_targets(backend: Backend, names: Sequence[str]) -> list[KnownTarget]:
    """The targets that names and patterns mean; InvalidInput with those that are near or known for one of none."""
    targets, unknown = targets_meant(backend, names)
    for name in unknown:
        raise InvalidInput("METRIC", f"{shorten(name)} is not known here; {suggestion(name, backend.names())}")
    return targets


def chosen_targets(backend: Backend, names: Sequence[str]) -> dict[str, KnownTarget]:
    """The targets that the names mean, or all that are being polled if none is named."""
    targets = find_targets(backend, names) if names else [target for target in backend.targets() if target.is_on]
    return {target.name: target for target in targets}


def require_known(backend: Backend, name: str) -> str:
    """`name` if there is a metric of that name."""
    known = backend.names()
    if name in known:
        return name
    raise InvalidInput("METRIC", f"{shorten(name)} is not known here; {suggestion(name, known)}")


def suggestion(name: str, known: Collection[str]) -> str:
    """Those that are near, else those that there are."""
    if not known:
        return "nothing has been polled yet: `kizami targets` lists what is configured, `kizami up` polls it"
    return near_names(name, known, 3) or f"known: {_first_few(known)}"


def _first_few(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:10]) + (", …" if len(ordered) > 10 else "")

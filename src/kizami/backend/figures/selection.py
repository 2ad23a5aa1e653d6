"""Which metrics are meant: by name, by pattern (`chat/*`), or all values of a target that has several (pure)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kizami.backend.name_patterns import compile_names
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget


def is_pattern(name: str) -> bool:
    """Whether it may stand for several metrics: no name has such a character."""
    return "*" in name or "?" in name


def names_meant(pattern: str, known: Collection[str]) -> list[str]:
    """The known names that a name or pattern means, in order; none if there are none."""
    if not is_pattern(pattern):
        return [name for name in sorted(known) if name == pattern or name.startswith(f"{pattern}/")]
    form = compile_names(pattern, single=True)
    return [name for name in sorted(known) if form.fullmatch(name)]


def targets_meant(backend: Backend, patterns: Sequence[str]) -> tuple[list[KnownTarget], list[str]]:
    """The targets that are meant, each once, in the order of the patterns; and the patterns that mean none."""
    known = backend.names()
    meant = {pattern: names_meant(pattern, known) for pattern in patterns}
    found = {
        target.name: target for target in backend.targets({name for names in meant.values() for name in names})
    }
    chosen: dict[str, KnownTarget] = {}
    unknown = []
    for pattern, names in meant.items():
        # `chat` is the metric of that name; only where there is none are the values of a target meant.
        own = [pattern] if pattern in found else [name for name in names if name in found]
        chosen |= {name: found[name] for name in own}
        unknown += [] if own else [pattern]
    return list(chosen.values()), unknown

"""What a query asks figures about: metrics, stretches, zone, and what they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from kizami.backend.figures.edges import parse_every
from kizami.backend.figures.report import FigureQuestion
from kizami.backend.figures.selection import targets_meant
from kizami.backend.figures.summary import Aggregate
from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget, UnknownTarget
from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten
from kizami.web.view.address import read_asked_zone

MAX_METRICS = 1000


def read_question(query: Mapping[str, str]) -> FigureQuestion:
    """The stretches that are asked for, else InvalidInput naming the parameter."""
    every = parse_every(query["every"]) if "every" in query else None
    return FigureQuestion(every, read_asked_zone(query) or UTC, query.get("compare"))


def read_aggregates(query: Mapping[str, str]) -> tuple[Aggregate, ...]:
    """Which figures are wanted: `sum,mean`; without it all."""
    names = query["figures"].split(",") if "figures" in query else [each.value for each in Aggregate]
    known = {each.value: each for each in Aggregate}
    for name in names:
        if name not in known:
            raise InvalidInput("figures", f"{shorten(name)} is none of {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names))


def read_targets(backend: Backend, query: Mapping[str, str]) -> list[KnownTarget]:
    """The targets of `metric`: names and patterns with commas between them; the only one there is without it."""
    if "metric" not in query:
        targets = backend.targets()
        if len(targets) != 1:
            raise InvalidInput("metric", f"is missing; there are {len(targets)} targets, see /api/v1/targets")
        return targets
    targets, unknown = targets_meant(backend, query["metric"].split(","))
    if unknown:
        raise UnknownTarget(unknown[0])
    if len(targets) > MAX_METRICS:
        raise InvalidInput("metric", f"means {len(targets):,} metrics; ask for at most {MAX_METRICS:,} at a time")
    return targets

"""The links of each panel: its JSON, its CSV, and the command line that prints the same (pure)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from urllib.parse import urlencode

from kizami.core.slots import format_second
from kizami.web.view.address import View


@dataclass(frozen=True, slots=True)
class PanelLinks:
    """Where the same can be had."""

    json: str
    csv: str
    command: str


@dataclass(frozen=True, slots=True)
class ShownRanges:
    """What a page shows of a target: the chart's range if it is not zoomed, and what the grid shows.

    `log` is the target whose incidents and events it lists; None: it lists them all.
    """

    range: str
    grid: Mapping[str, str]
    log: str | None = None


def panel_links(
    view: View, metric: str | None, company: str | None, shown: ShownRanges, options: Mapping[str, str]
) -> dict[str, PanelLinks]:
    """The links of every panel of a page that shows `metric`; `options` lead the command to the same backend."""
    zoom, grid = _zoom(view, shown.range), dict(shown.grid)
    of_metric = {"metric": metric} if metric else {}
    of_log = {"metric": shown.log} if shown.log else {}
    asked = {name: value for name, value in view.query().items() if name in ("every", "compare") and view.every}
    lines = {
        "status": _command(options, "status"),
        "chart": _command(options, "query", metric, zoom | asked),
        "slots": _command(options, "query", metric, grid),
        "gaps": _command(options, "gaps", metric, {"last": "24h"}),
        "dead-letters": _command(options, "dead-letters list", metric),
        "incidents": _command(options, "alerts list", shown.log),
        "events": _command(options, "alerts events", shown.log),
        "targets": _command(options, "status --all"),
        "companies": _points_command(options, company or "ID"),
    }
    listed = {name: value for name, value in view.query().items() if name in ("search", "condition")}
    queries = {
        "chart": of_metric | zoom | asked,
        "slots": of_metric | grid,
        "gaps": of_metric,
        "dead-letters": of_metric,
        "incidents": {"state": "open"} | of_log,
        "events": of_log,
        "targets": listed,
    }
    return {panel: _links(panel, queries.get(panel, {}), line) for panel, line in lines.items()}


def ways_to(metric: str, origin: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """How a target's numbers are had elsewhere: what it is, and the line to type."""
    query = urlencode({"metric": metric, "last": "1h"})
    return (
        ("query", _command(options, "query", metric, {"last": "1h"})),
        ("export", _command(options, "export", metric, {"last": "24h"})),
        ("backfill", _command(options, "backfill", metric, {"last": "24h"})),
        ("records", f"curl '{origin}/api/v1/records?{query}'"),
        ("csv", f"curl '{origin}/api/v1/records?{query}&format=csv'"),
    )


def _zoom(view: View, range_name: str) -> dict[str, str]:
    return between(view.start, view.end) if view.start and view.end else {"last": range_name}


def between(start: datetime, end: datetime) -> dict[str, str]:
    """The range as a query has it."""
    return {"from": format_second(start), "to": format_second(end)}


def _links(panel: str, query: dict[str, str], command: str) -> PanelLinks:
    json_url = f"/api/v1/{panel}" + (f"?{urlencode(query)}" if query else "")
    # The chart's points are for drawing; who wants a table wants the records themselves, or their sums.
    path = ("figures" if "every" in query else "records") if panel == "chart" else panel
    return PanelLinks(json_url, f"/api/v1/{path}?{urlencode({**query, 'format': 'csv'})}", command)


def _command(
    options: Mapping[str, str], verb: str, metric: str | None = None, query: dict[str, str] | None = None
) -> str:
    words = ["kizami", *verb.split()]
    if metric is not None:
        words.append(metric)
    for name, value in (query or {}).items():
        words += [f"--{name}", value]
    return shlex.join([*words, *chain.from_iterable(options.items())])


def _points_command(options: Mapping[str, str], company: str) -> str:
    """Points need no list of targets."""
    kept = {name: value for name, value in options.items() if name != "--config"}
    return _command({"--company-id": company} | kept, "aggregate points")

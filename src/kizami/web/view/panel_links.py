"""The links of each panel: its JSON, its CSV, and the command line that prints the same (pure)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from urllib.parse import urlencode

from kizami.core.slots import format_second
from kizami.home.grid import grid_window
from kizami.web.view.address import View


@dataclass(frozen=True, slots=True)
class PanelLinks:
    """Where the same can be had."""

    json: str
    csv: str
    command: str


def panel_links(
    view: View, metric: str | None, company: str | None, now: datetime, options: Mapping[str, str]
) -> dict[str, PanelLinks]:
    """The links of every panel of a page that shows `metric`; `options` lead the command to the same home."""
    grid_start, grid_end = grid_window(view.held_at or now, view.minutes)
    zoom = _zoom(view)
    grid = _between(grid_start, grid_end) if view.held_at else {"last": f"{view.minutes}m"}
    of_metric = {"metric": metric} if metric else {}
    lines = {
        "status": _command(options, "status"),
        "chart": _command(options, "query", metric, zoom),
        "slots": _command(options, "query", metric, grid),
        "gaps": _command(options, "gaps", None, {"last": "24h"}),
        "dead-letters": _command(options, "dead-letters list"),
        "targets": _command(options, "status --all"),
        "companies": _points_command(options, company or "ID"),
    }
    listed = {name: value for name, value in view.query().items() if name in ("search", "condition")}
    queries = {"chart": of_metric | zoom, "slots": of_metric | grid, "targets": listed}
    return {panel: _links(panel, queries.get(panel, {}), line) for panel, line in lines.items()}


def _zoom(view: View) -> dict[str, str]:
    return _between(view.start, view.end) if view.start and view.end else {"last": view.range}


def _between(start: datetime, end: datetime) -> dict[str, str]:
    return {"from": format_second(start), "to": format_second(end)}


def _links(panel: str, query: dict[str, str], command: str) -> PanelLinks:
    json_url = f"/api/v1/{panel}" + (f"?{urlencode(query)}" if query else "")
    # The chart's points are for drawing; who wants a table wants the records themselves.
    path = "records" if panel == "chart" else panel
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

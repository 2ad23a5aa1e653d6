"""The configuration in pieces: packed for each bundle at synth, and found again by the functions.

    bundles/plan.json       the plan: timing and members of every bundle that is polled
    bundles/<k>.json        bundle k: its name, its timing and the tables of its members, in their order
    bundles/disabled.json   the tables of targets that are not polled; messages about them may still be on a queue
    bundles/names/XX.json   in which bundle a target is, by the first byte of its name's hash
    bundles/alerts.json     what kizami.toml says about alerts, if anything
    bundles/kept.json       how long metrics are kept that are not kept for ever

A Collector of 100,000 targets parses a hundred of them. Each file is read once a cold start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from kizami.aws.history.keeping import KeptMetric, kept_metrics
from kizami.core.bundles import Bundle, BundleMember, BundlePlan, read_member, write_member
from kizami.core.config import Config
from kizami.core.errors import ConfigurationError
from kizami.core.slots import shorten
from kizami.core.targets.settings import parse_target
from kizami.core.targets.target import Target

if TYPE_CHECKING:
    from kizami.aws.alerts.packaged import PackagedAlerts

FOLDER = "bundles"
_PLAN, _KEPT, _DISABLED = "plan.json", "kept.json", "disabled"
_BUNDLES_IN_MEMORY = 128


def write_files(plan: BundlePlan, tables: Mapping[str, Any], disabled: Iterable[str] = ()) -> dict[str, bytes]:
    """Write the pieces of a plan; `tables` has the table of every target by name, also of the `disabled` ones."""
    files: dict[str, Any] = {
        _PLAN: {"plan": plan.name, "bundles": [[*_timing(each), _rows(each)] for each in plan.bundles]},
        f"{_DISABLED}.json": {"name": "", "targets": [tables[name] for name in disabled]},
    }
    places: dict[str, str] = {table["name"]: _DISABLED for table in files[f"{_DISABLED}.json"]["targets"]}
    for bundle in plan.bundles:
        number = bundle.name.partition(".")[2]
        members = [member.name for member in bundle.members]
        files[f"{number}.json"] = {
            "name": bundle.name,
            "timing": _timing(bundle),
            "targets": [tables[name] for name in members],
        }
        places |= dict.fromkeys(members, number)
    for name, place in places.items():
        files.setdefault(_names_file(name), {})[name] = place
    return {f"{FOLDER}/{name}": json.dumps(each, ensure_ascii=False).encode() for name, each in files.items()}


def write_kept(targets: Iterable[Target]) -> dict[str, bytes]:
    """Write how long metrics are kept; no file if all are kept for ever."""
    rows = [astuple(each) for each in kept_metrics(targets)]
    return {f"{FOLDER}/{_KEPT}": json.dumps(rows).encode()} if rows else {}


class PackagedTargets:
    """The pieces that were deployed with a function."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.place = lru_cache(maxsize=20_000)(self._place)
        self._piece = lru_cache(maxsize=_BUNDLES_IN_MEMORY)(self._read_piece)

    @property
    def has_plan(self) -> bool:
        """Return True if the pieces are those of a plan."""
        return os.path.exists(self._path(_PLAN))

    @cached_property
    def plan(self) -> BundlePlan:
        """Every bundle that is polled."""
        found = self._read(_PLAN)
        bundles = (
            _bundle(f"{found['plan']}.{number}", timing, map(read_member, rows))
            for number, (*timing, rows) in enumerate(found["bundles"])
        )
        return BundlePlan(found["plan"], tuple(bundles))

    def bundle(self, name: str) -> Bundle | None:
        """Return the bundle of that name, None if it is of another plan."""
        number = name.partition(".")[2]
        if not os.path.exists(self._path(f"{number}.json")):
            return None
        bundle, _ = self._piece(number)
        return bundle if bundle is not None and bundle.name == name else None

    def target(self, name: str) -> Target:
        """Return the target of that name, else ConfigurationError."""
        return self._piece(self.place(name))[1][name]

    def knows(self, name: str) -> bool:
        """Return True if there is such a target, polled or disabled."""
        return name in self._read(_names_file(name), {})

    def kept(self) -> dict[str, KeptMetric]:
        """Return the metrics that are not kept for ever."""
        return {row[0]: KeptMetric(*row) for row in self._read(_KEPT, [])}

    def alerts(self) -> PackagedAlerts:
        """Return what kizami.toml says about alerts."""
        from kizami.aws.alerts.packaged import (
            ALERTS_FILE,
            PackagedAlerts,
            read_alerts,
        )  # only the reconciler alerts

        packed = self._read(ALERTS_FILE, {})
        return read_alerts(packed) if packed else PackagedAlerts()

    def _place(self, name: str) -> str:
        place = self._read(_names_file(name), {}).get(name)
        if place is None:
            raise ConfigurationError("metric", f"{shorten(name)} is not a target of the deployed kizami.toml")
        return str(place)

    def _read_piece(self, number: str) -> tuple[Bundle | None, dict[str, Target]]:
        found = self._read(f"{number}.json")
        rows = enumerate(found["targets"])
        parsed = tuple(parse_target(row, f"{number}.json: targets[{index}]") for index, row in rows)
        targets = Config(parsed).below(os.path.dirname(self._folder)).targets
        by_name = {target.name: target for target in targets}
        if not found["name"]:
            return None, by_name
        members = (BundleMember(target.name, target.answer.decimals, target.metrics) for target in targets)
        return _bundle(found["name"], found["timing"], members), by_name

    def _read(self, name: str, default: Any = None) -> Any:
        try:
            with open(self._path(name), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            if default is not None:
                return default
            raise ConfigurationError("KIZAMI_BUNDLES", f"{self._folder} has no {name}") from None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


@lru_cache(maxsize=4)
def packaged_targets(folder: str) -> PackagedTargets:
    """Return those of a folder, the same for all invocations of a function."""
    return PackagedTargets(folder)


def _bundle(name: str, timing: Iterable[Any], members: Iterable[BundleMember]) -> Bundle:
    interval, lag, backfill, offset = timing
    return Bundle(name, interval, lag, backfill, offset, tuple(members))


def _timing(bundle: Bundle) -> list[Any]:
    return [bundle.interval_seconds, bundle.lag_seconds, bundle.backfill, bundle.offset_seconds]


def _rows(bundle: Bundle) -> list[Any]:
    return [write_member(member) for member in bundle.members]


def _names_file(name: str) -> str:
    return f"names/{sha256(name.encode()).hexdigest()[:2]}.json"

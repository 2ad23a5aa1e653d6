"""The configuration in pieces: what is packed for each bundle at synth, and how a function finds its own again.

bundles/index.json        every bundle: when it is asked and who is in it, for the Sender and the reconciler
bundles/NAME.json         the tables of its members, in their order, for the Collector
bundles/names/XX.json     which bundle a metric is in, by the first byte of its hash
bundles/alerts.json       what is said about alerts, if anything is, for the reconciler
bundles/kept.json         whose records are not kept for ever, for the reconciler
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from kizami.aws.history.keeping import KeptMetric, kept_metrics
from kizami.core.config import Config
from kizami.core.errors import ConfigurationError
from kizami.core.slots import shorten
from kizami.core.targets.bundles import NamedBundle
from kizami.core.targets.settings import parse_target
from kizami.core.targets.target import Target

if TYPE_CHECKING:
    from kizami.aws.alerts.packaged import PackagedAlerts

FOLDER, KEPT = "bundles", "kept.json"
_KEPT_BUNDLES = 128  # of which a function keeps the targets


def write_files(
    bundles: Iterable[NamedBundle], tables: Mapping[str, Any], disabled: Iterable[NamedBundle] = ()
) -> dict[str, bytes]:
    """The files of these bundles by name; `tables` are the targets' own. `disabled` ones are found, not polled."""
    polled, found = list(bundles), list(disabled)
    files = {"index.json": [astuple(bundle) for bundle in polled]}
    names: dict[str, dict[str, str]] = {}
    for bundle in (*polled, *found):
        files[f"{bundle.name}.json"] = [tables[member] for member in bundle.members]
        for member in bundle.members:
            names.setdefault(_names_file(member), {})[member] = bundle.name
    whole = {**files, **names}
    return {f"{FOLDER}/{name}": json.dumps(part, ensure_ascii=False).encode() for name, part in whole.items()}


def write_kept(targets: Iterable[Target], bundles: Iterable[NamedBundle]) -> dict[str, bytes]:
    """The file that says for how long the metrics of each bundle are kept; none if all are for ever."""
    by_name = {target.name: target for target in targets}
    kept = {
        bundle.name: [astuple(each) for each in kept_metrics(by_name[member] for member in bundle.members)]
        for bundle in bundles
    }
    told = {name: rows for name, rows in kept.items() if rows}
    return {f"{FOLDER}/{KEPT}": json.dumps(told).encode()} if told else {}


class PackagedBundles:
    """The pieces that were deployed with a function; each is read once a cold start, for it does not change."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.of_metric = lru_cache(maxsize=20_000)(self._of_metric)
        self.targets = lru_cache(maxsize=_KEPT_BUNDLES)(self._targets)
        self.places = lru_cache(maxsize=_KEPT_BUNDLES)(self._places)

    def all(self) -> list[NamedBundle]:
        """Every bundle that is polled."""
        rows = self._read("index.json")
        return [NamedBundle(*timing, tuple(members)) for *timing, members in rows]  # type: ignore[call-arg]

    def kept(self) -> dict[str, list[KeptMetric]]:
        """The metrics that are not kept for ever by their bundles, also of those that are not polled."""
        return {bundle: [KeptMetric(*row) for row in rows] for bundle, rows in self._read(KEPT, {}).items()}

    def target(self, metric: str) -> Target:
        """The target of that name, else ConfigurationError."""
        return self.targets(self.of_metric(metric))[metric]

    def alerts(self) -> PackagedAlerts:
        """Who is told what."""
        from kizami.aws.alerts.packaged import (  # only the reconciler tells
            ALERTS_FILE,
            PackagedAlerts,
            read_alerts,
        )

        packed = self._read(ALERTS_FILE, {})
        return read_alerts(packed) if packed else PackagedAlerts()

    def _of_metric(self, metric: str) -> str:
        """The name of the bundle that a target is in, else ConfigurationError."""
        bundle = self._read(_names_file(metric), {}).get(metric)
        if bundle is None:
            raise ConfigurationError("metric", f"{shorten(metric)} is not a target of the deployed kizami.toml")
        return str(bundle)

    def _targets(self, bundle: str) -> dict[str, Target]:
        """The members of a bundle by name, in their order."""
        rows = self._read(f"{bundle}.json")
        parsed = tuple(parse_target(row, f"{bundle}.json: targets[{index}]") for index, row in enumerate(rows))
        whole = Config(parsed).below(os.path.dirname(self._folder))
        return {target.name: target for target in whole.targets}

    def _places(self, bundle: str) -> dict[str, int]:
        """Where each member stands in a bundle."""
        return {name: place for place, name in enumerate(self.targets(bundle))}

    def _read(self, name: str, default: Any = None) -> Any:
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            if default is not None:
                return default
            raise ConfigurationError("KIZAMI_BUNDLES", f"{self._folder} has no {name}") from None


@lru_cache(maxsize=4)
def packaged_bundles(folder: str) -> PackagedBundles:
    """Those of a folder, for all invocations of a function."""
    return PackagedBundles(folder)


def _names_file(metric: str) -> str:
    return f"names/{sha256(metric.encode()).hexdigest()[:2]}.json"

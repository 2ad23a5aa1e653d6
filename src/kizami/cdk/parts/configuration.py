"""The configuration of many targets in pieces, one for each bundle: a function parses no more than it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kizami.aws.alerts.packaged import ALERTS_FILE, write_alerts
from kizami.aws.bundles.files import FOLDER, write_files, write_kept
from kizami.core.config import load_toml, parse_config
from kizami.core.targets.bundles import NamedBundle, make_bundles
from kizami.core.targets.target import Target


def bundle_files(text: str, bundles: Iterable[NamedBundle], keep_seconds: int | None = None) -> dict[str, bytes]:
    """The files of the bundles of a kizami.toml; what is disabled is packed too, for slots that are on a queue.

    `keep_seconds` is for how long the slots of targets are kept that do not say so, None for ever.
    """
    document, config = load_toml(text, "kizami.toml"), parse_config(text).keeping(keep_seconds)
    tables = {table["name"]: table for table in document["targets"]}
    disabled = make_bundles(target for target in config.targets if not target.enabled)
    told = {each.name: _told(tables[each.name], each) for each in config.targets}
    polled = list(bundles)
    files = write_files(polled, told, disabled) | write_kept(config.targets, [*polled, *disabled])
    if config.alerts is not None:
        files[f"{FOLDER}/{ALERTS_FILE}"] = write_alerts(document, config.alerts, config.enabled_targets)
    return files


def _told(table: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """The table of a target with what the file and the deployment say for all of them."""
    kept = {"keep": target.keep_seconds, "keep_totals": target.keep_totals_seconds}
    return {**{name: seconds for name, seconds in kept.items() if seconds is not None}, **table}

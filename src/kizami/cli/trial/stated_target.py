"""The target that is tried: one of kizami.toml, one with other settings, or one that only the options describe."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kizami.cli.metric_names import suggestion
from kizami.core.config import Config, load_toml
from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten
from kizami.core.targets.settings import TARGET_SETTINGS, parse_target
from kizami.core.targets.target import MOCK_API_URL, SEED_TARGET, Target
from kizami.platform.config_file import load_config, read_content

NEW_NAME = "new"
_PLACE = "options"
_TABLES = ("query", "headers")  # an option adds to what the file says
_SEED_TABLE = {"name": SEED_TARGET.name, "url": MOCK_API_URL, "lag": 0, "echo": True}


@dataclass(frozen=True, slots=True)
class StatedTarget:
    """A target, and the table that states it if that is not the file's own."""

    target: Target
    table: Mapping[str, Any] | None = None


def find_stated(config: Path | None, name: str | None, changes: Mapping[str, Any]) -> StatedTarget:
    """The target of that name (or the only one) with the changes, else the one that they alone describe."""
    if name is None and "url" in changes:
        return _parse({"name": NEW_NAME}, changes)
    settings = load_config(config)
    known = [target.name for target in settings.config.targets]
    if name not in known and "url" in changes:
        return _parse({"name": name}, changes)
    name = _require_known(name, known)
    if not changes:
        return StatedTarget(settings.config.target(name))
    if settings.path is None:
        return _parse(_SEED_TABLE, changes)
    stated = _parse(_table(settings.path, name), changes)
    return replace(stated, target=Config((stated.target,)).below(str(settings.path.parent)).targets[0])


def _require_known(name: str | None, known: list[str]) -> str:
    if name is None and len(known) == 1:
        return known[0]
    if name is None:
        raise InvalidInput("NAME", f"is required: {suggestion('', known)}; or --url for another")
    if name not in known:
        raise InvalidInput("NAME", f"{shorten(name)} is not a target; {suggestion(name, known)}")
    return name


def _table(path: Path, name: str) -> Mapping[str, Any]:
    content, _ = read_content(path)
    tables = load_toml(content.decode("utf-8"), str(path))["targets"]
    return next(table for table in tables if table["name"] == name)


def _parse(table: Mapping[str, Any], changes: Mapping[str, Any]) -> StatedTarget:
    stated = {**table, **changes}
    for setting in _TABLES:
        if isinstance(table.get(setting), dict) and isinstance(changes.get(setting), dict):
            stated[setting] = {**table[setting], **changes[setting]}
    return StatedTarget(parse_target(stated, _PLACE), stated)


def read_changes(
    options: Mapping[str, str | None], tables: Mapping[str, Iterable[str]], others: Iterable[str]
) -> dict[str, Any]:
    """What the options state, as kizami.toml would: `--query a=1` twice is a list, `--set lag=1h` a string."""
    changes: dict[str, Any] = {setting: value for setting, value in options.items() if value is not None}
    for setting, pairs in tables.items():
        if values := _read_pairs(pairs, setting):
            changes[setting] = values
    for text in others:
        setting, value = _split(text, "--set")
        if setting not in TARGET_SETTINGS:
            raise InvalidInput(
                "--set", f"{shorten(setting)} is not a setting; {suggestion(setting, TARGET_SETTINGS)}"
            )
        changes[setting] = _read_value(value)
    return changes


def _read_pairs(pairs: Iterable[str], setting: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for text in pairs:
        name, value = _split(text, "--query" if setting == "query" else "--header")
        before = values.get(name)
        values[name] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return values


def _split(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInput(option, "must be like NAME=VALUE")
    return name.strip(), value.strip()


def _read_value(text: str) -> Any:
    """What TOML reads, else the text itself: 1h needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return text

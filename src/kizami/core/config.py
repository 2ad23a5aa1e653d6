"""What `kizami.toml` says: the targets, the aggregation's schedule, backups, alerts (read by the runtimes)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.slots import parse_duration, shorten
from kizami.core.targets.settings import TARGET_SETTINGS, parse_age, parse_target
from kizami.core.targets.target import SEED_TARGET, Target
from kizami.core.targets.unknown_names import HEAD_SETTINGS, near_names, refuse_unknown, shown_key

if TYPE_CHECKING:
    from kizami.aggregation.schedule import AggregationSchedule
    from kizami.alerts.rules.settings import AlertSettings
    from kizami.core.targets.hosts import RequestLimit

OF_ALL_TARGETS = ("keep", "keep_totals")
_TABLE_SETTINGS = {  # each as the file writes its header
    "targets": "[[targets]]",
    "hosts": "[[hosts]]",
    "aggregation": "[aggregation]",
    "backup": "[backup]",
    "alerts": "[[alerts]]",
    "maintenance": "[[maintenance]]",
}
_FILE_SETTINGS = (*_TABLE_SETTINGS, *HEAD_SETTINGS)

BACKUP_SETTINGS = ("every", "keep", "directory")
SHORTEST_BACKUP_SECONDS, LONGEST_BACKUP_SECONDS = 60, 366 * 86_400
DEFAULT_BACKUPS_KEPT, MOST_BACKUPS_KEPT = 7, 10_000


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """The backups that `kizami up` makes: how often, how many it keeps, and where, if not beside the database."""

    every_seconds: int
    keep: int = DEFAULT_BACKUPS_KEPT
    directory: str | None = None

    def below(self, directory: str) -> BackupPlan:
        """With the path as it is from `directory`, where the file is."""
        is_relative = self.directory is not None and not self.directory.startswith("/")
        return replace(self, directory=f"{directory}/{self.directory}") if is_relative and directory else self


@dataclass(frozen=True, slots=True)
class Config:
    """What `kizami.toml` says."""

    targets: tuple[Target, ...] = (SEED_TARGET,)
    aggregation: AggregationSchedule | None = None
    backup: BackupPlan | None = None
    alerts: AlertSettings | None = None
    hosts: tuple[RequestLimit, ...] = ()

    @property
    def enabled_targets(self) -> tuple[Target, ...]:
        return tuple(target for target in self.targets if target.enabled)

    def below(self, directory: str) -> Config:
        """With the paths of certificates and backups as they are from `directory`, where the file is."""
        config = replace(self, backup=self.backup.below(directory)) if self.backup else self
        if not any(target.tls for target in self.targets):
            return config
        from kizami.core.access.tls import below

        found = (replace(each, tls=below(each.tls, directory)) if each.tls else each for each in self.targets)
        return replace(config, targets=tuple(found))

    def keeping(self, seconds: int | None) -> Config:
        """With the slots of targets that do not say for how long kept for so long; for ever if None."""
        if seconds is None:
            return self
        told = (each if each.keep_seconds else replace(each, keep_seconds=seconds) for each in self.targets)
        return replace(self, targets=tuple(told))

    def target(self, name: str) -> Target:
        """The target of that name, else ConfigurationError with the names there are."""
        for target in self.targets:
            if target.name == name:
                return target
        names = [target.name for target in self.targets]
        near = near_names(name, names, 3) or f"known: {', '.join(names[:10])}"
        raise ConfigurationError("metric", f"{shorten(name)} is not a target; {near}")

    @property
    def asked_by(self) -> dict[str, str]:
        """Which target's messages ask for a metric, for each that is one of several values."""
        return {name: target.name for target in self.targets if target.answer.values for name in target.metrics}


def parse_config(text: str, place: str = "kizami.toml") -> Config:
    """The configuration that the TOML `text` states; every error names its place in the file."""
    document = load_toml(text, place)
    _refuse_unknown(document, place)
    entries = document.get("targets", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(f"{place}: targets", "must be tables: write [[targets]], in double brackets")
    if not entries:
        raise ConfigurationError(place, "needs at least one [[targets]] table; `kizami init` writes an example")
    of_all = _parse_of_all(document, place)
    tables = enumerate({**of_all, **entry} for entry in entries)
    targets = tuple(parse_target(entry, f"{place}: targets[{index}]") for index, entry in tables)
    _refuse_repeated(targets, place)
    backup = _parse_backup(document["backup"], f"{place}: backup") if "backup" in document else None
    alerts = _parse_alerts(document, place)
    hosts = _parse_hosts(document["hosts"], targets, f"{place}: hosts") if "hosts" in document else ()
    return Config(targets, _parse_aggregation(document, place), backup, alerts, hosts)


def _parse_hosts(value: object, targets: tuple[Target, ...], place: str) -> tuple[RequestLimit, ...]:
    from kizami.core.targets.hosts import parse_hosts  # hardly any file has one

    return parse_hosts(value, targets, place)


def _refuse_unknown(document: Mapping[str, Any], place: str) -> None:
    """ConfigurationError for what the file may not have outside its tables, with where it belongs."""
    for name in document:
        if name in _FILE_SETTINGS:
            continue
        if name in TARGET_SETTINGS:
            problem = "is a setting of a target: write it below a line [[targets]]"
        else:
            known = [*_TABLE_SETTINGS.values(), *HEAD_SETTINGS]
            problem = f"is not a table or setting; {near_names(name, known) or 'known: ' + ', '.join(known)}"
        raise ConfigurationError(f"{place}: {shown_key(name)}", problem)


def _parse_of_all(document: Mapping[str, Any], place: str) -> dict[str, int]:
    """What the file says for all targets, each of which may say otherwise."""
    try:
        return {name: parse_age(name, document[name]) for name in OF_ALL_TARGETS if name in document}
    except InvalidInput as error:
        raise ConfigurationError(f"{place}: {error.field}", error.problem) from None


def _parse_backup(table: object, place: str) -> BackupPlan:
    if not isinstance(table, dict):
        raise ConfigurationError(place, "must be one table: write [backup], in single brackets")
    refuse_unknown(table, BACKUP_SETTINGS, place)
    if "every" not in table:
        raise ConfigurationError(place, 'needs every = "1d" or another duration')
    keep, directory = table.get("keep", DEFAULT_BACKUPS_KEPT), table.get("directory")
    if type(keep) is not int or not 1 <= keep <= MOST_BACKUPS_KEPT:
        raise ConfigurationError(f"{place}.keep", f"must be a whole number from 1 to {MOST_BACKUPS_KEPT:,}")
    if directory is not None and (not isinstance(directory, str) or not directory or "\0" in directory):
        raise ConfigurationError(f"{place}.directory", "must be the path of a directory")
    try:
        return BackupPlan(backup_seconds(table["every"], "every"), keep, directory)
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.every", error.problem) from None


def backup_seconds(value: object, place: str) -> int:
    """How often a backup is made, from a minute on; InvalidInput names the place."""
    seconds = parse_duration(value, place)
    if not SHORTEST_BACKUP_SECONDS <= seconds <= LONGEST_BACKUP_SECONDS:
        raise InvalidInput(place, "must be from 1m to 366d")
    return seconds


def _parse_aggregation(document: Mapping[str, Any], place: str) -> AggregationSchedule | None:
    if "aggregation" not in document:
        return None
    from kizami.aggregation.schedule import parse_schedule  # it knows this module, and hardly any file has one

    return parse_schedule(document["aggregation"], f"{place}: aggregation")


def _parse_alerts(document: Mapping[str, Any], place: str) -> AlertSettings | None:
    if document.keys() <= {"targets", "hosts", "aggregation", "backup"}:
        return None
    from kizami.alerts.rules.settings import parse_alerts  # as above

    return parse_alerts(document, place)


def load_toml(text: str, place: str) -> dict[str, Any]:
    """The TOML document in `text`, which may begin with a byte order mark, as some Windows editors write it."""
    import tomllib  # here, because hardly any Lambda has a file and each one's start is measured

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        # The place stands at the end; what comes before may quote a key of any length.
        raise ConfigurationError(place, f"is not valid TOML: {str(error)[-200:]}") from None
    except RecursionError:
        raise ConfigurationError(place, "is nested too deeply") from None
    except ValueError:  # what int() says of a number with thousands of digits is about Python
        raise ConfigurationError(place, "has a number with too many digits") from None


def _refuse_repeated(targets: tuple[Target, ...], place: str) -> None:
    seen: set[str] = set()
    for index, target in enumerate(targets):
        names = {target.name, *target.metrics}
        for name in sorted(names & seen):
            raise ConfigurationError(f"{place}: targets[{index}].name", f"{shorten(name)} is used twice")
        seen |= names

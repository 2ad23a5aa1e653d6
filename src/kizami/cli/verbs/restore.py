"""`kizami restore`: a backup in the place of the database; the former one is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.cli.backends import BackendOptions
from kizami.cli.options import config_option, database_option
from kizami.cli.terminal.page_progress import page_progress
from kizami.cli.terminal.printing import instant_text, json_option, plural, print_json, say
from kizami.core.errors import KizamiError
from kizami.core.slots import shift
from kizami.local.copies.restore import restore_backup
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import load_config

_WHOLE = "there is nothing to catch up with"


@click.command(short_help="Put a backup in the database's place.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
@config_option
@database_option
def command(file: Path, as_json: bool, config: Path | None, database: Path) -> None:
    """Put the backup FILE in the place of the database, with `kizami up` stopped.

    FILE is checked first, and stays. The former database is kept under another name. It says what the next
    `kizami up` will catch up with, and what is older than that.
    """
    now = SystemClock().now()
    catch_up = {
        each.name: target.catch_up_seconds
        for target in load_config(config).config.enabled_targets
        for each in target.of_each_metric()
    }
    with page_progress("restoring") as progress:
        restored = restore_backup(file, database, now, progress=progress)
    former = str(restored.former) if restored.former else None
    newest, lacking, problem = _look_into(BackendOptions(config, database), catch_up, now)
    if as_json:
        print_json(
            {
                "database": str(database),
                "records": restored.records,
                "newestSlot": instant_text(newest) if newest else None,
                "former": former,
                "toCatchUp": lacking.recent if lacking else None,
                "older": lacking.older if lacking else None,
            }
        )
    newest_words = f", the newest slot {instant_text(newest)}" if lacking else ""
    say(f"{database}: {plural(restored.records, 'record')}{newest_words}")
    if former:
        say(f"the former database is kept as {former}")
    if restored.warning:
        say(f"{database}: {restored.warning}")
    say(
        lacking.words() if lacking else f"the backup is in place, but what is missing cannot be counted: {problem}"
    )


def _look_into(
    options: BackendOptions, catch_up: dict[str, int], now: datetime
) -> tuple[datetime | None, Lacking | None, str]:
    """The newest slot of the restored database and what it lacks, else why that cannot be found out.

    The backup is in place by now, so a failure here is not one of the restore.
    """
    try:
        with options.opened() as backend:
            return max(backend.newest_slots().values(), default=None), find_lacking(backend, catch_up, now), ""
    except KizamiError as error:
        return None, None, str(error)


@dataclass(frozen=True, slots=True)
class Lacking:
    """The slots that were due since the backup: those that catch-up asks for, and those too old for it."""

    recent: int
    older: int
    since: datetime | None = None

    def words(self) -> str:
        told = f"`kizami up` will catch up with {plural(self.recent, 'slot')}" if self.recent else _WHOLE
        if not self.older:
            return told
        remedy = f"`kizami backfill --gaps --from {instant_text(self.since)}`"
        return f"{told}; {plural(self.older, 'slot')} older than catch_up: {remedy}"


def find_lacking(backend: Backend, catch_up: dict[str, int], now: datetime) -> Lacking:
    """What the targets lack that are polled and may be asked for the past."""
    targets = [
        target for target in backend.targets() if target.is_on and target.backfill and target.name in catch_up
    ]
    recent = _missing(backend, {each: shift(now, -catch_up[each.name]) for each in targets}, now)
    every = _missing(backend, {each: each.first_slot for each in targets}, now)
    since = min((each.first_slot for each in targets), default=None)
    return Lacking(recent, every - recent, since)


def _missing(backend: Backend, starts: dict[KnownTarget, datetime], now: datetime) -> int:
    spans = {target.name: target.within(start, now, now) for target, start in starts.items()}
    counts = backend.slot_counts(spans)
    unsettled = (spans[name].expected - each.stored - each.pending - each.dead for name, each in counts.items())
    return sum(max(0, number) for number in unsettled)

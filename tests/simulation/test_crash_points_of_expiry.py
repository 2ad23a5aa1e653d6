"""A crash at every write while old slots are given up: what is kept stays as it was, what is not is gone for good.

The recording is made and replayed as in `test_crash_points.py`.
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from kizami.core.epoch import to_seconds
from kizami.core.sealed_spans import SlotColumns, span_seconds
from kizami.core.targets.target import Target
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.expiry import expire, unpack_hours
from kizami.local.store.history.free_space import give_back
from kizami.local.store.history.sealed import SealedSpan, insert_span, pack_span, spans_of, without_checksum
from kizami.local.store.metrics import known_metrics, register_targets
from programs.daemon import SOURCES
from simulation.test_crash_points import Event, Files, Recording, opened, rebuilt, surviving

DAY = 86_400
START = to_seconds(datetime(2025, 12, 2, tzinfo=UTC))
SPANS = 60
NOW = START + 100 * DAY
TARGETS = [
    # Spans of a day, whose hours stay when their slots are given up; and spans of an hour, given up entirely.
    Target(name="kept", interval_seconds=300, lag_seconds=300, keep_seconds=50 * DAY),
    Target(name="forgotten", keep_seconds=DAY, keep_totals_seconds=2 * DAY),
    Target(name="for_ever"),
]


class Beginning(NamedTuple):
    """What there was: the spans of each metric, and the bytes of their slots."""

    spans: Mapping[str, list[SealedSpan]]
    packed: Mapping[int, bytes]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    directory = tmp_path_factory.mktemp("expiry")
    database, recorded = directory / "kizami.db", directory / "recording"
    make_history(database)
    before = {"kizami.db": bytearray(database.read_bytes())}
    script = Path(__file__).with_name("recorded_expiry.py")
    paths = os.pathsep.join((str(SOURCES), str(Path(__file__).parent.parent)))
    subprocess.run(
        [sys.executable, script, str(database), str(NOW), str(recorded)],
        env=os.environ | {"PYTHONPATH": paths},
        check=True,
        timeout=120,
    )
    return Recording(before, pickle.loads(recorded.read_bytes()))


def make_history(path: Path) -> None:
    chance = random.Random(12)
    connection = open_database(path, create=True)
    with transaction(connection):
        known = register_targets(connection, TARGETS, datetime.fromtimestamp(START, UTC))
        for metric in known.values():
            seconds = span_seconds(metric.step_seconds)
            for start in range(START, START + SPANS * seconds, seconds):
                slots = range(start, start + seconds, 2 * metric.step_seconds)
                counts = [chance.getrandbits(50) for _ in slots]
                moments, late = [1000 * slot + chance.getrandbits(30) for slot in slots], [0 for _ in slots]
                columns = SlotColumns(slots, counts, moments, late, [1 for _ in slots], late)
                insert_span(connection, pack_span(metric.id, start, seconds, columns))
    connection.close()


def test_the_recording_gives_up_slots_totals_and_space(recording: Recording, tmp_path: Path) -> None:
    assert sum(event[0] == "acknowledged" for event in recording.events) > 10
    connection = opened(rebuilt(recording.before, recording.events, random.Random(0)), tmp_path)
    spans = spans_by_name(connection)
    connection.close()
    assert [len(spans[name]) for name in ("kept", "forgotten", "for_ever")] == [SPANS, 0, SPANS]
    assert (tmp_path / "kizami.db").stat().st_size < 0.7 * len(recording.before["kizami.db"])


def test_killed_at_any_write_what_is_kept_is_as_it_was(recording: Recording, tmp_path: Path) -> None:
    beginning = of_beginning(recording.before, tmp_path)
    for point in [*recording.points()][::3]:
        files = rebuilt(recording.before, recording.events[:point], torn=random.Random(point))
        assert_kept(beginning, last_acknowledged(recording.events[:point]), files, tmp_path)


def test_without_power_at_any_moment_what_is_kept_is_as_it_was(recording: Recording, tmp_path: Path) -> None:
    beginning = of_beginning(recording.before, tmp_path)
    for point in [*recording.points()][::3]:
        chance = random.Random(point)
        files = rebuilt(recording.before, list(surviving(recording.events[:point], chance)), torn=chance)
        assert_kept(beginning, last_acknowledged(recording.events[:point]), files, tmp_path)


def assert_kept(
    beginning: Beginning, acknowledged: Mapping[str, int | None], files: Files, directory: Path
) -> None:
    """As after a crash, and as after the start that follows, which goes on where the crash was."""
    connection = opened(files, directory)
    try:
        assert_sound(connection, beginning, acknowledged)
        connection.execute("PRAGMA synchronous = OFF")  # nobody takes its power away any more
        for steps in (expire(connection, NOW), give_back(connection)):
            for _ in steps:
                pass
        assert_sound(connection, beginning, acknowledged)
        assert not spans_by_name(connection)["forgotten"]
    finally:
        connection.close()


def of_beginning(before: Files, directory: Path) -> Beginning:
    connection = opened(before, directory)
    found = Beginning(spans_by_name(connection), dict(connection.execute("SELECT id, packed FROM sealed_slots")))
    connection.close()
    return found


def last_acknowledged(events: list[Event]) -> Mapping[str, int | None]:
    told = [event[1] for event in events if event[0] == "acknowledged"]
    return told[-1] if told else {}


def spans_by_name(connection: apsw.Connection) -> dict[str, list[SealedSpan]]:
    known = known_metrics(connection).values()
    return {metric.name: spans_of(connection, metric.id, 0, 2**40) for metric in known}


def assert_sound(
    connection: apsw.Connection, beginning: Beginning, acknowledged: Mapping[str, int | None]
) -> None:
    before, blobs = beginning
    known, spans = known_metrics(connection), spans_by_name(connection)
    slots = dict(connection.execute("SELECT id, packed FROM sealed_slots"))
    hours = dict(connection.execute("SELECT id, packed FROM sealed_hours"))
    assert spans["kept"] == before["kept"], "figures are kept of slots that are not"
    assert spans["for_ever"] == before["for_ever"]
    left = len(spans["forgotten"])
    assert spans["forgotten"] == before["forgotten"][SPANS - left :], "the oldest are given up first"
    for name, found in spans.items():
        until = known[name].expired_until
        assert (until or 0) >= (acknowledged.get(name) or 0), "what is given up does not come back"
        for span in found:
            is_expired = until is not None and span.end <= until
            assert slots.pop(span.slots_id, None) == (None if is_expired else blobs[span.slots_id])
            if is_expired:
                packed = without_checksum(span.slots_id, hours.pop(span.slots_id))
                assert packed is not None
                of_hours = unpack_hours(packed)
                assert [sum(column) for column in zip(*of_hours, strict=True)][1::3] == [span.stored, span.total]
    assert not slots, "slots are left that belong to no span"
    assert not hours, "hours are left that belong to no span"


def test_this_test_would_notice_slots_that_are_given_up_alone(recording: Recording, tmp_path: Path) -> None:
    """Without the note of up to where that is, as two transactions would leave it."""
    beginning = of_beginning(recording.before, tmp_path)
    connection = opened(recording.before, tmp_path)
    connection.execute("DELETE FROM sealed_slots WHERE id = ?", (beginning.spans["kept"][0].slots_id,))
    with pytest.raises(AssertionError):
        assert_sound(connection, beginning, {})
    connection.close()

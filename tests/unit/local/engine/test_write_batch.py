"""What the loop hands over: every kind of row has its effect, and settles the message that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from kizami.local.engine.write_batch import WriteBatch
from kizami.local.store import statements
from kizami.local.store.database import open_database
from kizami.local.store.rows import FailedRow, ReturnedRow, SentRow, SlotKey, StoredRow
from kizami.local.store.statements import LIVE


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_database(tmp_path / "kizami.db", create=True)
    yield connection
    connection.close()


def test_whatever_becomes_of_a_message_it_is_in_nobody_s_hands_then() -> None:
    failed, returned = FailedRow(0, 1, 0, 1, "x"), ReturnedRow(0, 1, 0)
    for rows in (
        {"stored": [StoredRow(0, 1, 7, 0, 0, 1, False)]},
        {"answered": [SlotKey(0, 1)]},
        {"failed": [failed]},
        {"buried": [failed]},
        {"removed": [SlotKey(0, 1)]},
        {"unasked": [returned]},
        {"unanswered": [returned]},
    ):
        assert list(WriteBatch(**rows).settled()) == [SlotKey(0, 1)]
    assert list(WriteBatch(sent=[SentRow(0, 1, 5, 0)]).settled()) == []


def test_several_values_are_acknowledged_by_the_message_that_asked_for_them(connection: apsw.Connection) -> None:
    statements.send(connection, [SentRow(0, 1, 5, 0)], LIVE, 0)
    values = [StoredRow(0, number, 7, 0, 0, 1, False) for number in (2, 3)]
    WriteBatch(stored=values, answered=[SlotKey(0, 1)]).write(connection, 0)
    assert connection.execute("SELECT count(*) FROM messages").get == 0
    assert connection.execute("SELECT count(*) FROM slots").get == 2


def test_what_came_later_is_added_in_its_order() -> None:
    batch = WriteBatch(sent=[SentRow(0, 1, 5, 0)])
    batch.absorb(WriteBatch(sent=[SentRow(5, 1, 5, 0)], removed=[SlotKey(0, 1)]))
    assert [row.slot for row in batch.sent] == [0, 5]
    assert len(batch) == 3

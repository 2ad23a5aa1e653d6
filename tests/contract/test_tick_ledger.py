"""The ledger of ticks on DynamoDB: what is noted twice or by several at once says no more than is true."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from aws_here.bundled import create_ledger_table
from aws_here.local_aws import dynamodb_at
from kizami.aws.store.tick_ledger import KEPT_SECONDS, LedgerTick, TickLedger

SLOT = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
NOW = SLOT + timedelta(seconds=7)
END = SLOT + timedelta(seconds=60)


@pytest.fixture
def ledger(endpoint: str) -> TickLedger:
    return TickLedger(create_ledger_table(endpoint))


def at(tick: int) -> datetime:
    return SLOT + timedelta(seconds=5 * tick)


def noted(ledger: TickLedger) -> list[LedgerTick]:
    return list(ledger.ticks("b", SLOT, END))


def test_a_tick_lacks_whoever_was_not_stored_and_never_more_than_before(ledger: TickLedger) -> None:
    ledger.note("b", 4, SLOT, [0, 1, 3], NOW)
    assert noted(ledger) == [LedgerTick(SLOT, frozenset({2}))]
    ledger.note("b", 4, SLOT, [0, 1], NOW)  # once more, and this time two of them failed
    assert noted(ledger) == [LedgerTick(SLOT, frozenset({2}))]
    ledger.note("b", 4, SLOT, [2], NOW)
    ledger.note("b", 4, SLOT, [2], NOW)
    assert noted(ledger) == [LedgerTick(SLOT)]


def test_a_slot_that_comes_alone_to_a_tick_without_an_item_makes_nobody_else_stored(ledger: TickLedger) -> None:
    ledger.note("b", 3, SLOT, [1], NOW)
    assert noted(ledger) == [LedgerTick(SLOT, frozenset({0, 2}))]
    ledger.note("b", 3, at(1), [], NOW)
    assert len(noted(ledger)) == 1, "nobody stored is nothing to note"


def test_whole_ticks_are_counted_and_others_named(ledger: TickLedger) -> None:
    for tick in range(6):
        ledger.note("b", 3, at(tick), [0, 1, 2] if tick != 4 else [0, 1], NOW)
    ledger.note("other", 3, SLOT, [0, 1, 2], NOW)
    assert ledger.count_whole("b", SLOT, END) == 5
    assert ledger.count_whole("b", at(1), at(4)) == 3
    assert list(ledger.short_ticks("b", SLOT, END)) == [LedgerTick(at(4), frozenset({2}))]
    short = {int(at(4).timestamp()): 0b100}
    assert ledger.pick_short("b", SLOT, END) == (6, short)
    assert ledger.pick_short("b", at(1), at(4)) == (3, {})
    assert ledger.lacking("b", at(3), END) == {int(at(3).timestamp()): 0, **short, int(at(5).timestamp()): 0}
    assert (ledger.first("b"), ledger.newest("b"), ledger.first("nobody")) == (SLOT, at(5), None)


def test_what_was_checked_is_no_tick(ledger: TickLedger) -> None:
    ledger.note("b", 1, SLOT, [0], NOW)
    assert not ledger.is_checked("b")
    ledger.check("b", NOW)
    assert ledger.is_checked("b")
    assert (ledger.newest("b"), ledger.count_whole("b", SLOT, END)) == (SLOT, 1)


def test_items_expire(endpoint: str) -> None:
    table = create_ledger_table(endpoint)
    TickLedger(table).note("b", 1, SLOT, [0], NOW)
    (item,) = dynamodb_at(endpoint).scan(TableName=table)["Items"]
    assert int(item["expiresAt"]["N"]) == int(NOW.timestamp()) + KEPT_SECONDS


def test_several_at_once_take_off_what_each_of_them_has_stored(
    dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aws_here.local_aws import lead_to

    lead_to(dynamodb_local_endpoint, monkeypatch)
    ledger = TickLedger(create_ledger_table(dynamodb_local_endpoint))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda place: ledger.note("b", 40, SLOT, [place], NOW), range(40)))
    assert noted(ledger) == [LedgerTick(SLOT)]

"""The question about slots on AWS: what it costs in requests, what is refused, and who owns the slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from aws_here.collecting_here import targets as deployed
from aws_here.fleet import BEGAN, DAY, NOW, SEALED, TABLE, Fleet, make_fleet
from aws_here.memory_aws import led_to, memory_aws
from aws_here.recovering_here import START, recovering
from kizami.aws.ownership import Ownership
from kizami.aws.plans import Plans
from kizami.aws.reading import SlotReader
from kizami.aws.slot_answers import AwsSlotAnswers
from kizami.backend.figures.edges import edges_between, parse_every
from kizami.backend.slots import (
    EARLIEST,
    LATEST,
    Buckets,
    Each,
    Edges,
    Newest,
    PollLateness,
    Records,
    Runs,
    SlotRun,
    State,
)
from kizami.core.bundles import make_plan
from kizami.core.errors import InvalidInput, StoreError
from kizami.core.slots import shift
from kizami.core.targets.target import Target

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
EVER = (EARLIEST, LATEST)
OVERVIEW = (NOW - DAY, NOW - HOUR, NOW - MINUTE, shift(NOW, -10), NOW)
NAME = "metric00042"
VALUES = Buckets(values=True)


@pytest.fixture(scope="module")
def thousand() -> Fleet:
    found = make_fleet(1000)
    found.seal_metric(NAME, SEALED - 31 * DAY)
    return found


@pytest.fixture(scope="module")
def troubled() -> Fleet:
    """A third of its bundles has a member that is given up, which was silent since an hour before SEALED."""
    found = make_fleet(1000, dead_share=0.34)
    found.seal_dead()
    return found


class TestRequests:
    def test_an_overview_of_a_thousand_targets(self, thousand: Fleet) -> None:
        with thousand.asking() as requests:
            counted = thousand.answers.slots(dict.fromkeys(thousand.names, OVERVIEW), Buckets(states=True))
            newest = thousand.answers.slots(dict.fromkeys(thousand.names, EVER), Newest())
        assert requests.total() <= 20
        assert {tuple(each.stored for each in found) for found in counted.values()} == {(16_560, 708, 10, 1)}
        assert {each.slot for each in newest.values()} == {NOW.replace(second=0)}
        assert len(newest) == 1000

    def test_an_overview_while_some_are_in_trouble(self, troubled: Fleet) -> None:
        with troubled.asking() as requests:
            counted = troubled.answers.slots(dict.fromkeys(troubled.names, OVERVIEW), Buckets(states=True))
            newest = troubled.answers.slots(dict.fromkeys(troubled.names, EVER), Newest())
        assert requests.total() <= 30
        dead = [name for name, found in counted.items() if any(each.dead for each in found)]
        assert len(dead) == len(troubled.dead) == 4
        assert {tuple(each.dead for each in counted[name]) for name in dead} == {(1718, 708, 10, 1)}
        assert {newest[name].slot for name in dead} == {shift(SEALED, -3605)}
        assert len(newest) == 1000

    def test_the_newest_values_of_many_that_are_silent(self) -> None:
        """Where several members of a bundle are silent, its summaries say where their values are."""
        found = make_fleet(1000, dead_share=0.3, dead_members=20)
        found.seal_dead()
        with found.asking() as requests:
            newest = found.answers.slots(dict.fromkeys(found.names, EVER), Newest())
        assert requests.total() <= 12
        assert Counter(each.slot for each in newest.values()) == {
            NOW.replace(second=0): 940,
            shift(SEALED, -3605): 60,
        }
        assert {each.value for each in newest.values() if each.slot < SEALED} == {719}

    def test_only_ticks_that_may_lack_members_are_read(self, thousand: Fleet, troubled: Fleet) -> None:
        """From the mark on for a quarter of an hour, or two hours and a half of a bundle in trouble."""
        sizes = []
        for each in (thousand, troubled):
            before = each.aws.dynamodb.units.read
            with each.asking():
                each.answers.slots(dict.fromkeys(each.names, (SEALED, NOW)), Buckets(states=True))
            sizes.append(each.aws.dynamodb.units.read - before)
        assert sizes[0] < 200
        assert sizes[1] > 2 * sizes[0]

    @pytest.mark.parametrize(
        ("edges", "most", "stored"),
        [
            ([shift(NOW, seconds) for seconds in range(-3600, 1, 60)], 3, 719),
            ([shift(NOW, seconds) for seconds in range(-86_400, 1, 900)], 5, 17_279),
            ([SEALED - 31 * DAY + number * HOUR for number in range(31 * 24 + 3)], 4, 537_120),
        ],
        ids=["an-hour", "a-day", "a-month-by-hours"],
    )
    def test_a_chart_of_one_target(self, thousand: Fleet, edges: Edges, most: int, stored: int) -> None:
        with thousand.asking() as requests:
            found = thousand.answers.slots({NAME: edges}, VALUES)[NAME]
        assert requests.total() <= most
        assert sum(each.stored for each in found) == stored

    def test_a_month_of_one_target_by_days_of_another_zone(self, thousand: Fleet) -> None:
        tokyo = ZoneInfo("Asia/Tokyo")
        edges = edges_between(parse_every("1d"), tokyo, NOW - 30 * DAY, NOW)
        with thousand.asking() as requests:
            found = thousand.answers.slots({NAME: edges}, VALUES)[NAME]
        assert requests.total() <= 4
        assert found[1].stored == 17_280
        assert found[1].total == 24 * sum(range(720))
        assert (found[1].lowest, found[1].highest) == (0, 719)

    def test_gaps_of_a_day_of_a_thousand_targets(self, troubled: Fleet) -> None:
        with troubled.asking() as requests:
            found = troubled.answers.slots(
                dict.fromkeys(troubled.names, (NOW - DAY, SEALED)), Runs(frozenset(State))
            )
        assert requests.total() <= 10
        dead = [runs for runs in found.values() if len(runs) > 1]
        assert len(dead) == 4
        assert {runs[-1] for runs in dead} == {SlotRun(SEALED - HOUR, SEALED, 720, State.DEAD)}

    def test_lateness_of_an_hour_of_a_thousand_targets(self, thousand: Fleet) -> None:
        with thousand.asking() as requests:
            asked = dict.fromkeys(thousand.names, (NOW - 2 * DAY, SEALED - HOUR, SEALED))
            _, found = thousand.answers.slots(asked, PollLateness())
        assert requests.total() <= 15
        assert (found.polls, found.p50_ms, found.max_ms) == (720_000, 43, 46)

    def test_slots_of_one_target_with_their_states(self, thousand: Fleet) -> None:
        with thousand.asking() as requests:
            found = thousand.answers.slots({NAME: (NOW - DAY, NOW)}, Each())[NAME]
        assert requests.total() <= 5
        assert len(found) == 17_279
        assert (found[0].slot, found[0].state, found[0].value) == (
            NOW.replace(day=1, second=10),
            State.STORED,
            278,
        )

    def test_records_of_a_month_come_page_by_page(self, thousand: Fleet) -> None:
        with thousand.asking() as requests:
            pieces = thousand.answers.slots({NAME: (SEALED - 31 * DAY, NOW)}, Records())
            assert len(next(pieces)) == 720
        assert requests.total() <= 3
        with thousand.asking():
            assert sum(len(piece) for piece in pieces) == 31 * 17_280 + 1717 - 720


class TestTooLarge:
    def test_a_question_of_too_many_requests_is_refused_before_the_first(self, thousand: Fleet) -> None:
        edges = (NOW - 30 * DAY, NOW)
        with thousand.asking() as requests, pytest.raises(InvalidInput) as refused:
            thousand.answers.slots(dict.fromkeys(thousand.names, edges), Each())
        assert not requests
        problem = "takes some 2,031 requests to DynamoDB, more than 2,000"
        assert str(refused.value) == f"edges: {problem}; ask about fewer metrics or a shorter range"

    def test_records_may_take_more(self, thousand: Fleet) -> None:
        asked = dict.fromkeys(thousand.names, (NOW - 30 * DAY, NOW))
        with thousand.asking():
            assert next(thousand.answers.slots(asked, Records())).metric == "metric00000"

    def test_records_of_the_open_hours_of_too_many_bundles_are_refused(self) -> None:
        targets = [Target(name=f"m{number}", lag_seconds=5) for number in range(25_701)]
        answers = AwsSlotAnswers(TABLE, Ownership(TABLE, targets), targets, _At(NOW))
        with led_to(memory_aws()), pytest.raises(InvalidInput, match="open hours of 258 bundles") as refused:
            answers.slots(dict.fromkeys((each.name for each in targets), (NOW - HOUR, NOW)), Records())
        assert "end the range three hours ago, or ask about fewer metrics" in str(refused.value)

    def test_open_hours_that_reach_far_back_count(self) -> None:
        """The marks tell that nothing was sealed for a month."""
        found = make_fleet(1000, days=0)
        table = found.aws.dynamodb.tables[TABLE]
        for bundle in found.plan.bundles:
            item = table.items["#marks", bundle.name]
            table.put({**item, "s": {"S": "2025-11-01T00:00:00Z"}, "z": {"S": "2025-11-01T00:00:00Z"}})
        asked = dict.fromkeys(found.names, (NOW - 30 * DAY, NOW))
        with found.asking() as requests, pytest.raises(InvalidInput, match=r"some 3,\d+ requests"):
            found.answers.slots(asked, Buckets(states=True))
        assert requests.total() <= 3


class _At:
    """A clock that stands still."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def milliseconds(self) -> int:
        return int(self._now.timestamp() * 1000)


A, B = Target(name="a", lag_seconds=5), Target(name="b", interval_seconds=60, lag_seconds=60)
GAUGE = Target(name="gauge", backfill=False)


def test_what_lies_between_two_periods_of_a_plan_is_missing(tmp_path: Path) -> None:
    """A deployment takes a target away, and the next one goes back to the plan before."""
    with recovering(deployed("a", "b", interval="5s", lag="5s"), tmp_path) as world:
        world.poll(10)
        plan, settings = world.plan, world.settings
        world.deploy(deployed("b", interval="5s", lag="5s"), tmp_path / "without")
        gone = shift(world.now, -5)
        world.poll(10)
        world.plan, world.settings = plan, settings
        back = shift(world.now, -5)
        world.poll(30)
        for _ in range(2):  # each looks at one of the periods
            world.run()
        targets = [Target(name=name, lag_seconds=5) for name in "ab"]
        answers = AwsSlotAnswers(TABLE, Ownership(TABLE, targets), targets, _At(world.now))
        start, end = shift(START, -5), shift(world.now, -5)
        asked = dict.fromkeys("ab", (start, end))
        assert answers.slots(asked, Runs()) == {"a": [SlotRun(gone, back, 120, State.MISSING)]}
        counts = {name: found.stored for name, (found,) in answers.slots(asked, Buckets()).items()}
        assert counts == {"a": 40 * 12, "b": 50 * 12}


class TestOwnership:
    @pytest.fixture(autouse=True)
    def aws(self) -> Iterator[None]:
        self.aws = memory_aws()
        with led_to(self.aws):
            yield

    def deploy(self, minute: datetime, *targets: Target) -> str:
        plan = make_plan(targets)
        assert Plans(TABLE).claim(plan, minute)
        return plan.name

    def requests(self) -> int:
        return sum(self.aws.calls.values())

    def test_first_slots_are_the_first_that_were_polled_live(self) -> None:
        self.deploy(BEGAN, A)
        self.deploy(BEGAN + HOUR, A, B, GAUGE)
        self.deploy(BEGAN + 2 * HOUR, B)
        found = Ownership(TABLE).first_slots(["a", "b", "gauge", "nobody"], NOW)
        assert found == {"a": shift(BEGAN, -5), "b": shift(BEGAN, 3540), "gauge": shift(BEGAN, 3660)}

    def test_a_backfill_moves_first_slots_back_and_never_forward(self) -> None:
        self.deploy(BEGAN, A, B)
        ownership = Ownership(TABLE)
        ownership.expect_from({"a": BEGAN - DAY, "b": BEGAN + DAY})
        ownership.expect_from({"a": BEGAN - HOUR})
        assert Ownership(TABLE).first_slots(["a", "b"], NOW) == {"a": BEGAN - DAY, "b": shift(BEGAN, -60)}

    def test_first_slots_of_many_take_few_requests(self, thousand: Fleet) -> None:
        with thousand.asking() as requests:
            found = Ownership(TABLE, thousand.targets).first_slots(thousand.names, NOW)
        assert found == dict.fromkeys(thousand.names, shift(BEGAN, -5))
        assert requests.total() <= 3

    def test_recent_slots_take_no_former_periods(self) -> None:
        for number in range(5):
            self.deploy(BEGAN + number * HOUR, A, replace(B, name=f"b{number}"))
        ownership = Ownership(TABLE, [A, replace(B, name="b4")])
        reader = SlotReader(TABLE, ownership)
        start = int((BEGAN + 5 * HOUR).timestamp())
        before = self.requests()
        look = reader.look({"a": (start, start + 3600)}, {}, start + 3600)
        assert self.requests() == before + 1
        assert [share.bundle.plan for share in look.shares["a"]] == [make_plan([A, replace(B, name="b4")]).name]

    def test_a_range_over_deployments_has_a_share_of_each(self) -> None:
        plans = [self.deploy(BEGAN + number * HOUR, A, replace(B, name=f"b{number}")) for number in range(3)]
        reader = SlotReader(TABLE, Ownership(TABLE))
        start = int(BEGAN.timestamp())
        look = reader.look({"a": (start - 3600, start + 9000), "b1": (start, start + 9000)}, {}, start + 9000)
        assert [share.bundle.plan for share in look.shares["a"]] == plans
        assert [(share.start, share.end) for share in look.shares["a"]] == [
            (start - 3600, start + 3595),
            (start + 3595, start + 7195),
            (start + 7195, start + 9000),
        ]
        assert [(share.start, share.end) for share in look.shares["b1"]] == [(start, start + 7140)]

    def test_the_next_question_sees_a_deployment(self) -> None:
        self.deploy(BEGAN, A)
        reader = SlotReader(TABLE, Ownership(TABLE, [A]))
        start = int(BEGAN.timestamp())
        ranges = {"a": (start, start + 7200), "b": (start, start + 7200)}
        assert list(reader.look(ranges, {}, start + 3600).shares) == ["a"]
        self.deploy(BEGAN + HOUR, A, B)
        look = reader.look(ranges, {}, start + 7200)
        assert [len(look.shares[name]) for name in ("a", "b")] == [2, 1]

    def test_without_any_deployment_nothing_is_owned(self) -> None:
        ownership = Ownership(TABLE, [A])
        assert ownership.first_slots(["a"], NOW) == {}
        start = int(BEGAN.timestamp())
        assert SlotReader(TABLE, ownership).look({"a": (start, start + 60)}, {}, start + 60).shares == {}

    def test_the_first_slot_of_rows_is_that_of_the_first_row(self) -> None:
        ownership = Ownership(TABLE, [A], A)
        assert ownership.first_slots(["a"], NOW) == {}
        item = {"metricName": {"S": "a"}, "slotTime": {"S": "2025-11-05T00:00:00Z"}, "count": {"N": "3"}}
        self.aws.dynamodb.tables[TABLE].put(item)
        assert ownership.first_slots(["a", "b"], NOW) == {"a": datetime(2025, 11, 5, tzinfo=UTC)}


class TestFailures:
    def test_a_store_that_fails_is_named(self, thousand: Fleet) -> None:
        thousand.aws.fault = lambda operation: "before" if operation == "Query" else None
        try:
            with thousand.asking(), pytest.raises(StoreError, match="ThrottlingException"):
                thousand.answers.slots({NAME: (NOW - HOUR, NOW)}, Buckets(states=True))
        finally:
            thousand.aws.fault = lambda operation: None

    def test_a_tick_that_cannot_be_read_is_an_error(self) -> None:
        found = make_fleet(3, days=0)
        table = found.aws.dynamodb.tables[TABLE]
        key = next(key for key in table.items if key[0].startswith("#tick "))
        table.put({**table.items[key], "a": {"B": "AAAA"}})
        asked = dict.fromkeys(found.names, (SEALED, NOW))
        for view in (VALUES, Each(), Records()):
            with found.asking(), pytest.raises(StoreError, match="cannot be read: a tick of version 0"):
                tuple(found.answers.slots(asked, view))  # type: ignore[arg-type]

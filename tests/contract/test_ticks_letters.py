"""Dead letters and troubles over ticks and rows on AWS: what died, is redriven, forgotten, and told of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from aws_here.stack_here import NOW, SLOTS, StackHere, at, contents, counts, messages, no_fault, stack_here
from kizami.aws.blocks import Blocks
from kizami.aws.ticks import Ticks
from kizami.backend.port import Backend
from kizami.backend.snapshot import read_health
from kizami.backend.values import DeadLetter, Deaths, SlotCounts, TargetTrouble, trouble_of
from kizami.core.blocking import Trouble
from kizami.core.coverage import Gap, Span
from kizami.core.errors import InvalidInput, QueueError
from kizami.core.holding import TargetState
from kizami.core.messages import read_bundle
from kizami.core.slots import Window
from samples.installation import CALLS, START, TARGETS

SPAN = {"calls": Span(at(0), at(SLOTS), 5)}
HORIZON_SECONDS = 960
COST, REQUESTS = "usage/cost", "usage/requests"
TWINS = [replace(CALLS, name=f"twin-{number}") for number in range(3)]
NAMES = ["calls", *(twin.name for twin in TWINS)]


@pytest.fixture
def stack() -> Iterator[StackHere]:
    with stack_here([*TARGETS, *TWINS]) as found:
        found.fill()
        yield found


@pytest.fixture
def pair() -> Iterator[StackHere]:
    """Two targets in one bundle."""
    with stack_here([CALLS, TWINS[0]]) as found:
        found.fill()
        yield found


@pytest.fixture
def rows() -> Iterator[StackHere]:
    with stack_here([CALLS], CALLS) as found:
        found.fill()
        yield found


@pytest.fixture(params=["stack", "rows"])
def either(request: pytest.FixtureRequest) -> StackHere:
    found: StackHere = request.getfixturevalue(request.param)
    return found


def gaps(backend: Backend, name: str = "calls") -> list[Gap]:
    return backend.missing({name: SPAN["calls"]}).get(name, [])


@pytest.fixture(params=["before", "after"])
def crash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A call of AWS fails once, before or after it is carried out, and is not repeated."""
    monkeypatch.setattr("kizami.aws.client.json_client.PAUSES_SECONDS", ())
    return str(request.param)


def is_pending(backend: Backend, letter: DeadLetter) -> bool:
    window = Span(letter.slot, letter.slot + timedelta(seconds=5), 5)
    return backend.slot_counts({letter.metric: window})[letter.metric].pending == 1


class TestDeadLetters:
    def test_they_come_newest_first_and_are_no_gaps(self, either: StackHere) -> None:
        either.give_up(200, 201)
        backend = either.backend()
        newest, older = backend.dead_letters()
        assert [(letter.metric, letter.slot) for letter in (newest, older)] == [
            ("calls", at(201)),
            ("calls", at(200)),
        ]
        assert backend.dead_letters("calls", 1) == [newest]
        assert backend.dead_letters("calls", before=newest.key) == [older]
        assert (backend.dead_letters("nobody"), backend.dead_letters(limit=0)) == ([], [])
        assert backend.queue_depth(either.now()).dead == 2
        assert counts(backend, 198, 203) == SlotCounts(2, 0, 2)
        assert gaps(backend)[1] == Gap(at(202), at(210), 8)
        assert backend.slot_details("calls", at(0), at(SLOTS)).dead == [older, newest]

    def test_it_says_how_often_and_when_it_was_tried_and_why_it_died(self, stack: StackHere) -> None:
        stack.bury(["calls", "twin-1"], at(200), at(203), "status 418")
        letters = stack.backend().dead_letters()
        assert [(letter.slot, letter.metric) for letter in letters] == [
            (at(number), name) for number in (202, 201, 200) for name in ("twin-1", "calls")
        ]
        assert {
            (each.reason, each.receives, each.died_at, each.interval_seconds, each.backfill) for each in letters
        } == {("status 418", 5, NOW, 5, False)}

    def test_what_sqs_gave_up_says_no_more_than_sqs_knows(self, rows: StackHere) -> None:
        rows.give_up(200)
        (letter,) = rows.backend().dead_letters()
        assert (letter.died_at, letter.sent_at, letter.receives) == (None, NOW, 1)
        assert "the Collector's log says why" in letter.reason

    def test_they_are_looked_at_again_when_there_are_others_and_let_go_at_once(self, stack: StackHere) -> None:
        backend = stack.backend()
        for numbers in ((200,), (201, 202)):
            stack.give_up(*numbers)
            backend.dead_letters()
            stack.aws.calls.clear()
            first = [letter.receives for letter in backend.dead_letters()]
            assert set(first) == {5}
            assert not stack.aws.calls  # as they were last seen
            assert not any(message.receipt for message in stack.aws.queues["dead"])
        assert len(backend.dead_letters()) == 3

    def test_one_goes_back_and_is_pending_for_all(self, either: StackHere) -> None:
        either.give_up(200, 201)
        backend = either.backend()
        (letter,) = backend.dead_letters(limit=1)
        assert backend.redrive([letter]) == 1
        for each in [backend] if either.is_original else [backend, either.backend()]:
            assert [letter.slot for letter in each.dead_letters()] == [at(200)]
            assert counts(each, 200, 202) == SlotCounts(0, 1, 1)
        (message,) = either.sent()
        assert (message.window, message.metrics, message.attempts) == (Window(at(201), at(202)), ("calls",), ())
        assert backend.redrive([letter]) == 0

    def test_one_is_forgotten_and_its_slot_missing(self, either: StackHere) -> None:
        either.give_up(200, 201)
        backend = either.backend()
        (letter,) = backend.dead_letters(limit=1)
        assert backend.purge([letter]) == 1
        assert backend.purge([letter]) == 0
        for each in (backend, either.backend()):
            assert [letter.slot for letter in each.dead_letters()] == [at(200)]
            assert gaps(each)[1] == Gap(at(201), at(210), 9)
        assert either.sent() == []
        # What was forgotten can be asked for again.
        assert backend.backfill(messages(200, 201)) == 1

    def test_a_part_of_a_message_is_redriven_and_the_rest_stays(self, stack: StackHere) -> None:
        stack.bury(NAMES, at(200), at(204), "status 418")
        stack.wait()
        backend = stack.backend()
        letters = backend.dead_letters()
        chosen = [each for each in letters if each.metric == "twin-0" or each.slot == at(201)]
        assert backend.redrive(chosen) == len(chosen) == 7
        left = [each for each in letters if each not in chosen]
        for each in (backend, stack.backend()):
            assert {(letter.metric, letter.slot) for letter in each.dead_letters()} == {
                (letter.metric, letter.slot) for letter in left
            }
            assert counts(each, 200, 204, "twin-0") == SlotCounts(pending=4)
            assert counts(each, 200, 204, "twin-1") == SlotCounts(pending=1, dead=3)
        # They still say why and when they died.
        assert {letter.reason for letter in backend.dead_letters()} == {"status 418"}
        assert {letter.died_at for letter in backend.dead_letters()} == {NOW}
        others = {"calls", "twin-1", "twin-2"}
        assert contents(stack.sent()) == [(200, 201, {"twin-0"}), (201, 202, {*NAMES}), (202, 204, {"twin-0"})]
        assert contents(stack.sent("dead")) == [(200, 201, others), (202, 204, others)]

    def test_a_part_of_a_message_is_forgotten(self, stack: StackHere) -> None:
        stack.bury(NAMES, at(200), at(204))
        stack.wait()
        backend = stack.backend()
        assert backend.purge([each for each in backend.dead_letters() if each.metric == "calls"]) == 4
        for each in (backend, stack.backend()):
            assert counts(each, 200, 204) == SlotCounts()
            assert counts(each, 200, 204, "twin-2") == SlotCounts(dead=4)
            assert len(each.dead_letters()) == 12

    @pytest.mark.parametrize("is_sealed", [False, True])
    def test_a_sealed_slot_is_redriven_or_forgotten_like_others(self, pair: StackHere, is_sealed: bool) -> None:
        stack = pair
        stack.bury(["calls"], at(200), at(204))
        stack.bury(["twin-0"], at(200), at(204))
        stack.move_to(START + timedelta(days=3))
        if is_sealed:
            stack.seal()
            stack.sent()
            assert not list(Ticks("Metrics").read(stack.bundle_of("calls"), at(200), at(204)))
        backend = stack.backend()
        assert counts(backend, 200, 204) == SlotCounts(dead=4)
        letters = backend.dead_letters("calls")
        assert backend.redrive(letters[:1]) == 1
        assert counts(stack.backend(), 200, 204) == SlotCounts(pending=1, dead=3)
        assert backend.purge(letters[1:2]) == 1
        assert counts(stack.backend(), 200, 204) == SlotCounts(pending=1, dead=2)
        stack.wait(HORIZON_SECONDS)
        assert counts(stack.backend(), 200, 204) == SlotCounts(dead=2)
        assert counts(stack.backend(), 200, 204, "twin-0") == SlotCounts(dead=4)
        assert Gap(at(202), at(210), 8) in gaps(stack.backend())

    @pytest.mark.parametrize("is_sealed", [False, True])
    def test_a_dead_slot_whose_letter_is_gone_is_redriven_or_forgotten(
        self, pair: StackHere, is_sealed: bool
    ) -> None:
        stack = pair
        stack.bury(["calls", "twin-0"], at(200), at(202))
        stack.aws.queues["dead"].clear()  # after a fortnight
        stack.move_to(START + timedelta(days=3))
        if is_sealed:
            stack.seal()
            stack.sent()
        backend = stack.backend()
        details = backend.slot_details("calls", at(0), at(SLOTS))
        assert [letter.reason for letter in details.dead] == ["given up; its dead letter is gone"] * 2
        assert backend.backfill(messages(200)) == 0
        assert backend.redrive(details.dead[:1]) == 1
        assert backend.purge(details.dead[1:]) == 1
        assert counts(stack.backend(), 200, 202) == SlotCounts(pending=1)
        assert counts(stack.backend(), 200, 202, "twin-0") == SlotCounts(dead=2)

    def test_several_values_have_one_letter(self, stack: StackHere) -> None:
        stack.bury(["usage"], at(2), at(3))
        stack.wait()
        backend = stack.backend()
        (letter,) = backend.slot_details(COST, at(0), at(5)).dead
        assert [letter] == backend.dead_letters(REQUESTS) == backend.dead_letters()
        assert [counts(backend, 0, 5, name).dead for name in (COST, REQUESTS)] == [1, 1]
        assert backend.redrive([letter]) == 1
        assert [message.metrics for message in stack.sent()] == [("usage",)]

    def test_what_is_stored_by_now_is_not_asked_for(self, either: StackHere) -> None:
        either.give_up(200, 201)
        either.store("calls", at(201), 7)
        backend = either.backend()
        assert counts(backend, 200, 202) == SlotCounts(1, 0, 1)
        assert backend.redrive(backend.dead_letters()) == 1
        assert backend.dead_letters() == []
        assert len(either.sent()) == 1

    @pytest.mark.parametrize("changed", [1, 2])
    def test_slots_of_a_former_interval_are_asked_for(self, pair: StackHere, changed: int) -> None:
        pair.bury(["calls", "twin-0"], at(201), at(203))
        slower = [replace(each, interval_seconds=10, lag_seconds=10) for each in (CALLS, TWINS[0])]
        slower[changed:] = [CALLS, TWINS[0]][changed:]
        pair.reconfigure(*slower)
        pair.wait(120)
        backend = pair.backend(slower)
        assert backend.redrive(backend.dead_letters()) == 4
        assert contents(pair.sent()) == [(201, 203, {"calls", "twin-0"})]
        assert backend.dead_letters() == []

    def test_live_only_former_and_unknown_targets_are_not_redriven(self, stack: StackHere) -> None:
        stack.bury(["gauge"], at(2), at(3))
        stack.bury(["twin-1"], at(2), at(3))
        stack.wait()
        backend = stack.backend(TARGETS)  # without the twins
        letters = backend.dead_letters()
        assert len(letters) == 2
        assert backend.redrive([*letters, replace(letters[0], metric="calls")]) == 0
        assert stack.sent() == []
        assert backend.purge([*letters, replace(letters[0], metric="calls")]) == 2
        assert (backend.dead_letters(), stack.bodies("dead")) == ([], [])
        assert counts(stack.backend(), 2, 3, "twin-1") == SlotCounts()

    def test_what_is_no_message_of_ours_is_counted_and_let_alone(self, stack: StackHere) -> None:
        stack.bury_unread()
        stack.give_up(200)
        backend = stack.backend()
        letters = backend.dead_letters()
        depth = backend.queue_depth(NOW)
        assert (len(letters), depth.dead, depth.unreadable) == (1, 2, 1)
        assert backend.purge(letters) == 1
        assert stack.bodies("dead") == ["{}"]

    def test_a_slot_that_died_twice_is_one_dead_letter(self, stack: StackHere) -> None:
        stack.bury(["calls"], at(200), at(202), "status 500")
        stack.wait()
        stack.bury(["calls"], at(201), at(202), "status 503")
        stack.wait()
        backend = stack.backend()
        letters = backend.dead_letters()
        assert [(each.slot, each.reason) for each in letters] == [(at(201), "status 503"), (at(200), "status 500")]
        assert backend.redrive(letters[:1]) == 1
        assert [read_bundle(body).window for body in stack.bodies("dead")] == [Window(at(200), at(201))]

    def test_a_redrive_can_be_interrupted_at_any_call_and_repeated(self, pair: StackHere, crash: str) -> None:
        pair.bury(["calls", "twin-0"], at(200), at(203))
        pair.wait()
        chosen = [each for each in pair.backend().dead_letters() if each.slot != at(201) or each.metric == "calls"]

        def redrive() -> None:
            backend = pair.backend()
            known = {(each.metric, each.slot) for each in backend.dead_letters()}
            # No slot is lost: it is a dead letter still, or was asked for.
            assert all((each.metric, each.slot) in known or is_pending(backend, each) for each in chosen)
            backend.redrive(chosen)

        pair.interrupt(crash, redrive)
        assert [(each.metric, each.slot) for each in pair.backend().dead_letters()] == [("twin-0", at(201))]
        assert counts(pair.backend(), 200, 203) == SlotCounts(pending=3)
        assert counts(pair.backend(), 200, 203, "twin-0") == SlotCounts(pending=2, dead=1)

    def test_a_purge_can_be_interrupted_at_any_call_and_repeated(self, pair: StackHere, crash: str) -> None:
        pair.bury(["calls", "twin-0"], at(200), at(203))
        pair.wait()
        chosen = pair.backend().dead_letters("calls")
        pair.interrupt(crash, lambda: pair.backend().purge(chosen))
        assert {each.metric for each in pair.backend().dead_letters()} == {"twin-0"}
        assert counts(pair.backend(), 200, 203) == SlotCounts()
        assert counts(pair.backend(), 200, 203, "twin-0") == SlotCounts(dead=3)

    def test_a_redrive_that_fails_leaves_the_letters(self, stack: StackHere) -> None:
        stack.give_up(200, 201)
        backend = stack.backend()
        letters = backend.dead_letters()
        for refused in ("SendMessageBatch", "DeleteMessageBatch"):
            stack.aws.fault = {refused: "before"}.get
            with pytest.raises(QueueError):
                backend.redrive(letters)
            stack.aws.fault = no_fault
            assert len(stack.backend().dead_letters()) == 2
        assert backend.redrive(letters) == 2
        assert stack.backend().dead_letters() == []

    def test_a_stack_may_have_no_queue_of_dead_letters(self, stack: StackHere) -> None:
        stack.places = replace(stack.places, dead_letter_queue=None)
        stack.kill("calls", at(200))
        backend = stack.backend()
        assert (backend.keeps_dead_letters, backend.dead_letters()) == (False, [])
        assert backend.queue_depth(NOW).dead == 0
        assert counts(backend, 200, 201) == SlotCounts(dead=1)
        assert backend.redrive(backend.slot_details("calls", at(200), at(201)).dead) == 1

    def test_a_pause_is_refused_with_the_remedy(self, either: StackHere) -> None:
        backend = either.backend()
        assert not backend.can_pause
        for order in (backend.pause, backend.resume):
            with pytest.raises(InvalidInput, match=r"deployed kizami\.toml and deploy it again"):
                order("calls")

    def test_only_ticks_tell_what_is_pending(self, rows: StackHere) -> None:
        with pytest.raises(QueueError, match="SQS does not show"):
            rows.backend().pending()


class TestTroubles:
    def test_held_targets_are_in_trouble_and_failing_ones_while_they_are_tried_again(
        self, stack: StackHere
    ) -> None:
        blocks = Blocks("Metrics")
        held, failing = Trouble(at(0), "status 401", at(0), 2, 5, at(10_000)), Trouble(at(0), "status 500", NOW)
        blocks.save("usage", TargetState(held))
        blocks.save("calls", TargetState(failing))
        blocks.save("orders", TargetState(replace(failing, asked_at=at(0))))
        blocks.save("price", TargetState(slow=True))
        assert stack.backend().troubles() == {
            **dict.fromkeys((COST, REQUESTS), trouble_of(held)),
            "calls": TargetTrouble("status 500"),
        }

    def test_rows_have_none(self, rows: StackHere) -> None:
        assert rows.backend().troubles() == {}

    def test_what_died_lately_is_told_with_its_reason(self, stack: StackHere) -> None:
        stack.bury(["calls", "usage"], at(200), at(201), "status 404")
        stack.wait(600)
        lately = stack.now()
        stack.bury(["calls"], at(203), at(205), "status 418")
        stack.wait()
        backend = stack.backend()
        assert backend.deaths(lately) == {"calls": Deaths(2, at(203), "status 418")}
        assert backend.deaths(NOW) == {
            "calls": Deaths(3, at(200), "status 418"),
            **dict.fromkeys((COST, REQUESTS), Deaths(1, at(200), "status 404")),
        }
        assert backend.deaths(stack.now()) == {}

    def test_without_their_letters_slots_count_that_were_due_lately(
        self, stack: StackHere, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kizami.aws.ticks_backend.FEW_LETTERS", 0)
        now = stack.now()
        recent = [SLOTS + 720 - back for back in (300, 50, 20)]
        stack.bury(["calls"], at(3), at(4))
        for number in recent:
            stack.bury(["calls"], at(number), at(number + 1))
        stack.wait()
        unknown = "given up; `kizami dead-letters list` says why"
        assert stack.backend().deaths(now - timedelta(seconds=300)) == {"calls": Deaths(2, at(recent[1]), unknown)}
        Blocks("Metrics").save("calls", TargetState(Trouble(at(0), "status 418", stack.now())))
        assert stack.backend().deaths(now)["calls"].reason == "status 418"

    def test_of_rows_the_letters_tell(self, rows: StackHere) -> None:
        newest = SLOTS + 720 - 20
        rows.give_up(3, newest)
        found = rows.backend().deaths(NOW)["calls"]
        assert (found.slots, found.first_slot) == (1, at(newest))

    def test_health_counts_what_is_where(self, stack: StackHere) -> None:
        stack.give_up(200, 201)
        stack.backend().backfill(messages(202))
        health = read_health(stack.backend(), stack.now())
        assert health.target("calls").given_up == "status 500"
        found = [(each.gap.start, each.gap.slots) for each in health.gaps if each.metric == "calls"]
        assert found[-3:] == [(at(203), 7), (at(99), 1), (at(-1), 1)]

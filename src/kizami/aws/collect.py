"""A delivery of configured targets: which members are asked, what is written when, and what goes back.

    1. read what the ticks have already (not at the first receive of a live message), and the states of the members
    2. send on what another lane asks: slow members in one message, probes of held ones
    3. ask, one slot plainly or many on a loop
    4. write the first answers, after a fifth of the interval at the latest; then all that came later
    5. send what is tried again, then dead letters; after that, note in the tick what was given up

A delivery is acknowledged when each member is in the tick with a value or a state that something else works on.
Before that a crash has it delivered again: it reads the tick first and asks only for what is not stored.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Any

from kizami.aws.admission import SlotWork, TargetGate
from kizami.aws.asking import SPARE_SECONDS, Asked, ask_one
from kizami.aws.blocks import Blocks
from kizami.aws.client import machine
from kizami.aws.deliveries import Delivery
from kizami.aws.files import PackagedTargets
from kizami.aws.invocation import TimeLeft
from kizami.aws.marks import Marks
from kizami.aws.plans import Plans
from kizami.aws.returns import Failed, Returns, plan_messages, postponed
from kizami.aws.settings import QueueUrls
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.bundles import Bundle
from kizami.core.collector import seconds_to_wait
from kizami.core.errors import ConfigurationError, InvalidInput, KizamiError, StoreError
from kizami.core.holding import LIVE_SECONDS
from kizami.core.messages import BACKFILL, LIVE, PROBE, RETRY, BundleMessage, read_bundle
from kizami.core.recovery import MOST_SLOTS
from kizami.core.retries import Retry, plan_retry, reason_of
from kizami.core.slots import Window, floor_to_slot, format_instant, shift, slots_between
from kizami.core.ticks import Answered, Tick, steps_after

FIRST_WRITE_SECONDS = 1.0  # after which a live delivery writes what it has; of a short interval a fifth
NAMED = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """What deliveries are carried out with."""

    table: str
    targets: PackagedTargets
    urls: QueueUrls
    max_attempts: int


class DeliveryCollector:
    """Carries out the deliveries of one invocation."""

    def __init__(self, settings: CollectSettings, time_left: TimeLeft) -> None:
        self._settings = settings
        self._targets = settings.targets
        self._time_left = time_left
        self._ticks = Ticks(settings.table, time_left)
        self._gate = TargetGate(settings.targets, Blocks(settings.table, time_left))
        self._marks = Marks(settings.table, time_left)
        self._plans = Plans(settings.table, time_left)
        self._returns = Returns(settings.urls, time_left)

    def settle(self, delivery: Delivery) -> bool:
        """Carry out a delivery; return True if it can be acknowledged."""
        about: dict[str, Any] = {"messageId": delivery.message_id, "receiveCount": delivery.receive_count}
        try:
            self._settle(delivery, about)
        except KizamiError as error:
            log.error("not settled", extra={"event": "bundle.failed", **about, "detail": str(error)})
        except Exception as error:  # one delivery's surprise must not take the others of its batch down
            log.exception("not settled", extra={"event": "bundle.failed", **about, "error": type(error).__name__})
        else:
            return True
        return False

    def _settle(self, delivery: Delivery, about: dict[str, Any]) -> None:
        try:
            message = read_bundle(delivery.body)
            bundle = self._bundle(message.bundle)
            slots = _slots_of(message, bundle)
        except InvalidInput as error:
            self._returns.bury_unread(delivery, str(error))
            log.error("unreadable", extra={"event": "slot.dead", **about, "detail": str(error)})
            return
        about |= {"from": format_instant(message.window.start), "to": format_instant(message.window.end)}
        about |= {"bundle": bundle.name, "lane": message.lane}
        if seconds := postponed(message, machine.now()):
            self._returns.send([(message, seconds)])
            return
        is_first = message.lane == LIVE and delivery.receive_count == "1"
        ticks = {} if is_first else self._read_ticks(bundle, slots[:MOST_SLOTS])
        longest = self._longest_timeout(message) if len(slots) > 1 else 0.0
        for number, at in enumerate(slots):
            if number == MOST_SLOTS or (number and self._time_left() < longest + SPARE_SECONDS):
                rest = replace(message, window=Window(at, message.window.end))
                self._returns.send([(rest, 1)])
                break
            one = replace(message, window=Window.of_slot(at, bundle.interval_seconds))
            tick = ticks.get(at)
            self._collect(SlotWork(bundle, one, about | {"from": format_instant(at)}, tick, tick is not None))

    def _bundle(self, name: str) -> Bundle:
        """Return the bundle of this or another deployment, else InvalidInput."""
        if not name:
            raise InvalidInput("bundle", "is missing; configured targets are asked for in bundles")
        bundle = self._targets.bundle(name) or _registered(self._plans, name)
        if bundle is None:
            raise InvalidInput("bundle", f"{name} was registered by no deployment")
        return bundle

    def _read_ticks(self, bundle: Bundle, slots: Sequence[datetime]) -> Mapping[datetime, Tick]:
        """Return what is there, with one request."""
        if len(slots) == 1:
            return {slot: tick for (_, slot), tick in self._ticks.at([(bundle, slots[0])]).items()}
        end = shift(slots[-1], bundle.interval_seconds)
        return {tick.slot: tick for tick in self._ticks.read(bundle, slots[0], end, consistent=False)}

    def _longest_timeout(self, message: BundleMessage) -> float:
        known = (self._targets.target(name) for name in message.metrics if self._targets.knows(name))
        return max((target.timeout_seconds for target in known), default=0.0)

    def _collect(self, slot: SlotWork) -> None:
        stored = slot.tick.answers if slot.tick else {}
        names = [name for name in slot.message.metrics if slot.place(name) not in stored]
        if not names:
            return
        self._gate.admit(slot, names)
        self._send_ahead(slot)
        asked = self._ask(slot)
        self._gate.note(slot, asked)
        self._write_found(slot, asked)
        failed, missed = self._plan_failures(slot, asked)
        self._send_back(slot, asked, failed)
        self._give_up(slot, failed)
        _log_slot(slot, asked, failed, missed)

    def _send_ahead(self, slot: SlotWork) -> None:
        """Send what other deliveries are to ask: before the requests, so that nothing waits for them."""
        window, bundle = slot.message.window, slot.bundle
        ahead = [BundleMessage(window, tuple(slot.slow), bundle.name, RETRY)] if slot.slow else []
        for at, names in slot.probes.items():
            probed = Window.of_slot(at, bundle.interval_seconds)
            ahead.append(BundleMessage(probed, tuple(names), bundle.name, PROBE))
        self._returns.send((message, 0) for message in ahead)

    def _ask(self, slot: SlotWork) -> list[Asked]:
        if not slot.asks:
            return []
        first = slot.asks[0]
        machine.sleep(seconds_to_wait(first.message, first.target, machine.now()))
        slot.began, is_live = machine.now(), slot.lane == LIVE
        if len(slot.asks) == 1 and (not is_live or len(slot.bundle.members) == 1):
            return [ask_one(first, self._time_left)]
        from kizami.aws.ask_many import AskLimits, ask_many  # one slot never needs it, nor asyncio

        if is_live:
            limits = AskLimits(min(slot.bundle.interval_seconds / 5, FIRST_WRITE_SECONDS), LIVE_SECONDS)
        else:
            limits = AskLimits(inf if slot.lane == BACKFILL else LIVE_SECONDS)
        return ask_many(slot.asks, limits, self._time_left, lambda asked: self._write_early(slot, asked))

    def _write_early(self, slot: SlotWork, asked: Iterable[Asked]) -> None:
        """Write what was found out so far; what cannot be written now is written at the end."""
        with suppress(StoreError):
            self._write_found(slot, asked)

    def _write_found(self, slot: SlotWork, asked: Iterable[Asked]) -> None:
        """Write answers and held members that are not in the tick yet; the first write says who is outstanding."""
        fresh = [each for each in asked if each.is_answered and each.ask.place not in slot.written]
        answers = {each.ask.place: _answered(each, slot) for each in fresh}
        stored = slot.tick.answers.keys() if slot.tick else set()
        outstanding = {slot.place(name) for name in slot.message.metrics} - stored - answers.keys() - slot.held
        already = slot.noted | (slot.tick.held if slot.tick else set())
        self._write(slot, TickFacts(answers, frozenset(outstanding), held=frozenset(slot.held - already)))
        slot.written |= answers.keys()
        slot.noted |= slot.held

    def _write(self, slot: SlotWork, facts: TickFacts) -> None:
        """Add facts to the tick, or begin it: a live delivery begins it with the first write.

        Another delivery finds it there, unless that is sealed already or the live delivery has not come so far.
        """
        if (slot.is_begun or slot.lane != LIVE) and self._ticks.add(slot.bundle, slot.at, facts):
            return
        now, due = machine.now(), slot.bundle.due(slot.at)
        self._marks.note_if_late(slot.bundle, slot.at, now, is_backfill=slot.lane == BACKFILL)
        late_ms = round(((slot.began or now) - due).total_seconds() * 1000)
        self._ticks.record(slot.bundle, slot.at, facts, late_ms)
        slot.is_begun = True

    # What goes back

    def _plan_failures(self, slot: SlotWork, asked: Iterable[Asked]) -> tuple[list[Failed], list[tuple[str, str]]]:
        """Return what is tried again or given up, and what there is no more time for, with the reason of each."""
        failed, missed = [], []
        now, chance, limit = machine.now(), machine.chance(), self._settings.max_attempts
        interval = slot.bundle.interval_seconds
        for each in asked:
            name, target = each.ask.target.name, each.ask.target
            if each.is_answered or each.is_aborted or each.ask.place in slot.held:
                continue
            if each.error is None:
                missed.append((name, "its time was over before it could be asked for"))
                continue
            retry = plan_retry(each.error, each.ask.attempts + 1, limit, interval, chance, now)
            again = None if retry.delay_seconds is None else shift(now, retry.delay_seconds)
            if again is not None and not target.backfill and again >= shift(slot.bundle.due(slot.at), interval):
                missed.append((name, reason_of(each.error)))
            else:
                failed.append(Failed(name, retry, reason_of(each.error)))
        unknown = ConfigurationError("metric", "is not a target of the deployed kizami.toml")
        for name in slot.unknown:  # not yet, if a deployment is under way
            retry = plan_retry(unknown, slot.attempts(name) + 1, limit, interval, chance, now)
            failed.append(Failed(name, retry, reason_of(unknown), is_known=False))
        return failed, missed

    def _send_back(self, slot: SlotWork, asked: Iterable[Asked], failed: Sequence[Failed]) -> None:
        """Send one message for the members that failed, and one, at once, for those that the deadline cut off."""
        messages = plan_messages(slot.message, failed)
        if aborted := tuple(each.ask.target.name for each in asked if each.is_aborted):
            messages.append((BundleMessage(slot.message.window, aborted, slot.bundle.name, RETRY), 0))
        self._returns.send(messages)

    def _give_up(self, slot: SlotWork, failed: Sequence[Failed]) -> None:
        """Send dead letters, and only then note in the tick that their slots are given up.

        A slot whose target is not configured any more has no letter, because it could not be redriven.
        """
        dead = [each for each in failed if each.retry.is_dead]
        if dead:
            self._returns.bury(slot.message, [each for each in dead if each.is_known])
            self._write(slot, TickFacts(dead=frozenset(slot.place(each.name) for each in dead)))


def _slots_of(message: BundleMessage, bundle: Bundle) -> list[datetime]:
    """Return the slots of a message, else InvalidInput."""
    interval = bundle.interval_seconds
    for place, edge in (("from", message.window.start), ("to", message.window.end)):
        if floor_to_slot(edge, interval) != edge:
            raise InvalidInput(place, f"{format_instant(edge)} is not on a {interval}-second boundary")
    for name in message.metrics:
        if name not in bundle.places:
            raise InvalidInput("metrics", f"{name} is not in bundle {bundle.name}")
    return list(slots_between(message.window.start, message.window.end, interval))


_BUNDLES: dict[str, Bundle] = {}


def _registered(plans: Plans, name: str) -> Bundle | None:
    """Return a bundle of another deployment; what was registered never changes."""
    if name not in _BUNDLES and (found := plans.bundle(name)) is not None:
        _BUNDLES[name] = found
    return _BUNDLES.get(name)


def _answered(each: Asked, slot: SlotWork) -> Answered:
    steps = steps_after(slot.bundle.due(slot.at), each.ended_at)
    is_backfill = slot.lane == BACKFILL
    return Answered(each.values, each.ask.target.answer.decimals, steps, each.ask.attempts + 1, is_backfill)


def _log_slot(
    slot: SlotWork, asked: Sequence[Asked], failed: Sequence[Failed], missed: Iterable[tuple[str, str]]
) -> None:
    """Write a line for a slot of the delivery, and one for each group of members that failed."""
    answered = [each for each in asked if each.is_answered]
    missed = list(missed)
    counts = {
        "stored": len(answered),
        "failed": len(failed),
        "kept": len(slot.held),
        "slow": len(slot.slow) + sum(each.is_aborted for each in asked),
        "probed": sum(map(len, slot.probes.values())),
        "missed": len(missed),
    }
    details: dict[str, Any] = {name: count for name, count in counts.items() if count}
    if answered:
        due = slot.bundle.due(slot.at)
        late = sorted(round((each.ended_at - due).total_seconds() * 1000) for each in answered)
        took = sorted(round(each.seconds * 1000) for each in answered)
        details |= {"latenessMilliseconds": late[len(late) // 2], "latestMilliseconds": late[-1]}
        details["apiMilliseconds"] = took[len(took) // 2]
    slots = len(slot.message.metrics)
    log.info("bundle collected", extra={"event": "bundle.collected", **slot.about, "slots": slots, **details})
    _log_failures(slot, failed)
    for reason, count in Counter(reason for _, reason in missed).items():
        names = [name for name, why in missed if why == reason]
        facts = {**slot.about, "metric": ", ".join(names[:NAMED]), "slots": count, "reason": reason}
        log.warning("slots stay missing", extra={"event": "slot.missed", **facts})


def _log_failures(slot: SlotWork, failed: Iterable[Failed]) -> None:
    groups: dict[tuple[bool, str, Retry], list[str]] = {}
    for each in failed:
        groups.setdefault((each.is_known, each.reason, each.retry), []).append(each.name)
    for (is_known, reason, retry), names in groups.items():
        facts = {**slot.about, "metric": ", ".join(names[:NAMED]), "slots": len(names), "detail": reason}
        facts["attempts"] = retry.attempts
        if not retry.is_dead:
            facts["delaySeconds"] = retry.delay_seconds
            log.warning("tried again", extra={"event": "slot.returned", **facts})
        elif is_known:
            log.error("given up", extra={"event": "slot.dead", **facts})
        else:
            log.warning("slots of former targets are given up", extra={"event": "slots.dropped", **facts})

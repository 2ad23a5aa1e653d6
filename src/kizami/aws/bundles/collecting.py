"""A delivery of a bundle: all its slots side by side, then the ledger, then what failed goes back alone.

It is acknowledged when every slot is stored, kept, or on a queue again; before that a crash has it delivered once
more, and it finds what is stored. One slot's failure is never the delivery's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence, Set
from datetime import datetime
from functools import partial
from typing import Any

from kizami.aws.alerts.failure_notes import LEDGER_KEYS, FailureNotes
from kizami.aws.bundles.asking import Asker, SlotOutcome, SlotResult, reason_of
from kizami.aws.bundles.returning import Return, Returner, is_hopeless, plan_returns, postponed
from kizami.aws.bundles.writing import GatheringWriter
from kizami.aws.client import machine
from kizami.aws.client.side_by_side import event_loop, in_thread
from kizami.aws.deliveries import Delivery, report_failures
from kizami.aws.invocation import TimeLeft
from kizami.aws.settings import BundleSettings
from kizami.aws.store.block_guard import BlockGuard
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.record_batches import RecordBatches
from kizami.aws.store.tick_ledger import TickLedger
from kizami.core.errors import ConfigurationError, InvalidInput, KizamiError, StoreError
from kizami.core.messages import BundleMessage, ScheduleMessage, read_bundle
from kizami.core.slots import format_instant, format_second

log = logging.getLogger(__name__)

IS_STORED = (SlotResult.STORED, SlotResult.DUPLICATE)
NAMED = 5


def collect_bundles(
    settings: BundleSettings, deliveries: Sequence[Delivery], time_left: TimeLeft
) -> dict[str, list[dict[str, str]]]:
    """Collect all deliveries of an event; the answer names those that SQS is to deliver again."""
    return event_loop().run_until_complete(_collect_all(settings, deliveries, time_left))


async def _collect_all(
    settings: BundleSettings, deliveries: Sequence[Delivery], time_left: TimeLeft
) -> dict[str, list[dict[str, str]]]:
    await asyncio.sleep(0)  # lets the loop notice which kept connections were closed in the meantime
    collection = BundleCollection(settings, time_left)
    settled = await asyncio.gather(*map(collection.settle, deliveries))
    return report_failures(
        delivery for delivery, is_settled in zip(deliveries, settled, strict=True) if not is_settled
    )


class BundleCollection:
    """What the deliveries of one invocation are carried out with."""

    def __init__(self, settings: BundleSettings, time_left: TimeLeft) -> None:
        self._settings = settings
        self._guard = BlockGuard.of(settings.table_name, time_left)
        place = settings.table_name, time_left
        writer = GatheringWriter(RecordBatches(*place), DynamoDbMetricStore(*place))
        self._asker = Asker(self._guard, writer.put, time_left)
        self._ledger = TickLedger(settings.ledger_name, time_left)
        self._notes = FailureNotes(settings.ledger_name, LEDGER_KEYS, time_left)
        self._returner = Returner(settings, time_left)

    async def settle(self, delivery: Delivery) -> bool:
        """Whether the delivery can be acknowledged."""
        about = {"messageId": delivery.message_id, "receiveCount": delivery.receive_count}
        try:
            message = read_bundle(delivery.body)
        except InvalidInput as error:
            return await self._try(about, partial(self._returner.bury_unread, delivery, str(error)))
        about |= {"from": format_instant(message.window.start), "to": format_instant(message.window.end)}
        if later := postponed(delivery, message, machine.now()):
            return await self._try(about, partial(self._returner.send, delivery, [later]))
        outcomes = await self._ask_all(message)
        await self._note(message, outcomes)
        returns = plan_returns(delivery, outcomes, self._settings.max_attempts, machine.chance, machine.now())
        _log(about, outcomes, returns)
        is_settled = not returns or await self._try(about, lambda: self._returner.send(delivery, returns))
        await self._note_failures(outcomes, returns)
        return is_settled

    async def _try(self, about: dict[str, Any], send: Callable[[], None]) -> bool:
        try:
            await in_thread(send)
        except KizamiError as error:
            log.error("not settled", extra={"event": "bundle.failed", **about, "detail": str(error)})
            return False
        return True

    async def _ask_all(self, message: BundleMessage) -> list[SlotOutcome]:
        try:
            await in_thread(lambda: self._guard.look(message.metrics))
        except StoreError as error:  # then it goes by what it knew
            log.warning("blocked targets not read", extra={"event": "blocks.unread", "detail": str(error)})
        return await asyncio.gather(*map(self._ask, message.slots))

    async def _ask(self, slot: ScheduleMessage) -> SlotOutcome:
        try:
            target = self._settings.bundles.target(slot.metric)
        except ConfigurationError as error:
            return SlotOutcome(slot, SlotResult.FAILED, error)
        return await self._asker.ask(slot, target)

    async def _note(self, message: BundleMessage, outcomes: Sequence[SlotOutcome]) -> None:
        """What is stored is noted; if that fails, the reconciler finds it out."""
        stored: dict[str, list[int]] = {}
        for outcome in outcomes:
            if outcome.result in IS_STORED:
                bundle = self._settings.bundles.of_metric(outcome.slot.metric)
                stored.setdefault(bundle, []).append(self._settings.bundles.places(bundle)[outcome.slot.metric])
        try:
            for bundle, places in stored.items():
                await in_thread(partial(self._note_tick, bundle, message.window.start, places))
        except StoreError as error:
            details = {"tick": format_instant(message.window.start), "detail": str(error)}
            log.warning("a tick was not noted", extra={"event": "tick.unnoted", **details})

    async def _note_failures(self, outcomes: Sequence[SlotOutcome], returns: Sequence[Return]) -> None:
        """For who looks whether all is well; if that fails, the log says it alone."""
        dead = {name for each in returns if each.delay_seconds is None for name in each.message.metrics}
        failed = [each for each in outcomes if each.error is not None and not _is_own(each.error)]
        try:
            await asyncio.gather(*(in_thread(partial(self._note_failure, each, dead)) for each in failed))
        except StoreError as error:
            log.warning("a failure was not noted", extra={"event": "failure.unnoted", "detail": str(error)})

    def _note_failure(self, outcome: SlotOutcome, dead: Set[str]) -> None:
        name, error = outcome.slot.metric, outcome.error
        assert error is not None
        lost = outcome.slot.window.start if name in dead else None
        bundle = self._settings.bundles.of_metric(name)
        self._notes.note(bundle, name, reason_of(error), machine.now(), lost)

    def _note_tick(self, bundle: str, slot: datetime, places: list[int]) -> None:
        members = len(self._settings.bundles.places(bundle))
        self._ledger.note(bundle, members, slot, places, machine.now())


def _is_own(error: Exception) -> bool:
    """Whether it is no failure of the target's: the table's, or that there is no such target."""
    return isinstance(error, StoreError) or is_hopeless(error)


def _log(about: dict[str, Any], outcomes: Sequence[SlotOutcome], returns: Sequence[Return]) -> None:
    """One line for the delivery, and one for each slot that something is the matter with."""
    counts = Counter(outcome.result for outcome in outcomes)
    late = sorted(outcome.late_ms for outcome in outcomes if outcome.late_ms is not None)
    details = {result.value: counts[result] for result in SlotResult if counts[result]}
    took = sorted(outcome.api_ms for outcome in outcomes if outcome.api_ms is not None)
    if late:
        details |= {"latenessMilliseconds": late[len(late) // 2], "latestMilliseconds": late[-1]}
        details["apiMilliseconds"] = took[len(took) // 2]
    log.info("bundle collected", extra={"event": "bundle.collected", **about, "slots": len(outcomes), **details})
    for each in returns:
        named = ", ".join(each.message.metrics[:NAMED])
        facts = {**about, "metric": named, "slots": len(each.message.metrics), "attempts": each.attempts}
        if each.delay_seconds is None:
            log.error("given up", extra={"event": "slot.dead", **facts, "detail": each.reason})
        else:
            facts["delaySeconds"] = each.delay_seconds
            log.warning("tried again", extra={"event": "slot.returned", **facts, "detail": each.reason})
    for outcome in outcomes:
        _log_outcome(about, outcome)


def _log_outcome(about: dict[str, Any], outcome: SlotOutcome) -> None:
    facts = {**about, "metric": outcome.slot.metric}
    if outcome.blocks is not None:
        log.warning(
            "a target is blocked; one slot at a time is asked for until it answers, and the others are kept",
            extra={"event": "target.blocked", "metric": outcome.slot.metric, "reason": outcome.blocks.reason},
        )
    if outcome.ends is not None:
        since, probes = format_second(outcome.ends.since), outcome.ends.probes
        log.warning(
            "a blocked target answers again",
            extra={"event": "target.unblocked", **facts, "since": since, "probes": probes},
        )
    if outcome.result is SlotResult.MISSED:
        reason = "its time was over before it could be asked for"
        log.warning("a slot stays missing", extra={"event": "slot.missed", **facts, "reason": reason})
    facts |= {"result": outcome.result.value, "detail": reason_of(outcome.error) if outcome.error else ""}
    log.debug("slot settled", extra={"event": "slot.settled", **facts})

"""Many slots asked side by side on one event loop, within the time that a delivery may take.

The first answers are written while the slow ones are still awaited: a host that hangs keeps no other's answer
from the table. A message of one slot never imports this module, nor asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from kizami.aws.asking import Ask, Asked, failed, judge, prepare, request_seconds
from kizami.aws.client import machine
from kizami.aws.client.side_by_side import event_loop, fetch_beside, in_thread
from kizami.aws.invocation import TimeLeft


@dataclass(frozen=True, slots=True)
class AskLimits:
    """After how many seconds the first answers are written, and after how many the rest is aborted."""

    first_write: float
    abort: float = inf


def ask_many(
    asks: Sequence[Ask], limits: AskLimits, time_left: TimeLeft, write: Callable[[Sequence[Asked]], None]
) -> list[Asked]:
    """Ask for all; `write` gets what was answered by the first limit, unless that is all."""
    return event_loop().run_until_complete(_ask_many(asks, limits, time_left, write))


async def _ask_many(
    asks: Sequence[Ask], limits: AskLimits, time_left: TimeLeft, write: Callable[[Sequence[Asked]], None]
) -> list[Asked]:
    await asyncio.sleep(0)  # lets the loop notice which kept connections were closed in the meantime
    began, began_at = machine.monotonic(), machine.now()
    tasks = [asyncio.create_task(_ask(ask, time_left)) for ask in asks]
    waiting = set(tasks)
    try:
        done, waiting = await asyncio.wait(tasks, timeout=_seconds(limits.first_write))
        if waiting:
            await in_thread(lambda: write([task.result() for task in done]))
            # A request ends by its own timeout or with the time that is left, so only `abort` cuts it short.
            _, waiting = await asyncio.wait(waiting, timeout=_seconds(limits.abort + began - machine.monotonic()))
    finally:  # also after an error of `write`: the loop lives on, and no request may
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
    ended_at = machine.now()
    return [
        Asked(ask, began_at, ended_at, is_aborted=True) if task.cancelled() else task.result()
        for ask, task in zip(asks, tasks, strict=True)
    ]


def _seconds(limit: float) -> float | None:
    return None if limit == inf else max(0.0, limit)


async def _ask(ask: Ask, time_left: TimeLeft) -> Asked:
    began = machine.now()
    try:
        request = prepare(ask, began)
        if request is None:
            return Asked(ask, began, began)
        response = await fetch_beside(request, request_seconds(time_left()), ask.target)
    except Exception as error:  # noqa: BLE001 -- one slot's surprise must not take the others of its bundle down
        return failed(ask, began, error)
    return judge(ask, response, began)

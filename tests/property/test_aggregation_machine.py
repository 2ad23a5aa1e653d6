"""The batch on stores in memory, under every interleaving that Hypothesis can think of."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from fakes.aggregation import MemoryLockStore, MemoryPointStore
from samples.aggregation_machine import AggregationMachine


# **Feature: aggregation-batch, Property A5: never two holders, never two points a day, monthly points = granted
# days, and no lock is lost, whatever crashes, is repeated or runs at the same time**
def test_the_promises_hold_in_memory() -> None:
    run_state_machine_as_test(
        lambda: AggregationMachine(MemoryLockStore(), MemoryPointStore()),  # type: ignore[arg-type]
        settings=settings(max_examples=150, stateful_step_count=40, deadline=None),
    )

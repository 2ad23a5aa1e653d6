"""A minute that nobody sent, of a thousand targets: the functions themselves fill in every slot, each once.

bench/at_scale/healing.py does the same with a hundred thousand.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from aws_here.healing import Healing


def test_every_slot_of_a_missed_minute_of_1000_targets_is_filled_in(tmp_path: Path) -> None:
    healing = Healing(1000, tmp_path)
    assert healing.heal(most_runs=24) <= 4  # runs, until every slot has had its turn
    assert healing.stored() == healing.wanted()
    assert not healing.aws.queues.get("dead")


def test_it_is_whole_in_the_end_though_the_table_is_throttled_and_calls_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call of five fails, half of those after they were carried out: not all is made up for by repeating."""
    healing = Healing(200, tmp_path)
    monkeypatch.setattr("kizami.aws.client.machine.sleep", lambda seconds: None)
    chance = Random(15)
    healing.aws.fault = lambda operation: chance.choice(["before", "after", *[None] * 8])
    healing.heal(most_runs=24)
    assert healing.stored() == healing.wanted()

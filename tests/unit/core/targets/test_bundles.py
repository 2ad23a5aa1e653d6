"""Which targets are asked together: up to a hundred of one timing, and the same ones as others come and go."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from kizami.core.targets.bundles import NamedBundle, make_bundles


@dataclass(frozen=True)
class Polled:
    name: str
    interval_seconds: int = 5
    lag_seconds: int = 5
    backfill: bool = True


def targets(number: int) -> list[Polled]:
    return [Polled(f"m{each}") for each in range(number)]


def members(bundles: list[NamedBundle]) -> list[str]:
    return sorted(name for bundle in bundles for name in bundle.members)


def test_up_to_a_hundred_targets_are_one_bundle_and_more_are_several() -> None:
    assert len(make_bundles(targets(100))) == 1
    bundles = make_bundles(targets(1000))
    assert max(len(bundle.members) for bundle in bundles) <= 100
    assert members(bundles) == sorted(target.name for target in targets(1000))


def test_targets_of_a_bundle_have_one_interval_one_lag_and_one_way_to_be_repaired() -> None:
    mixed = [*targets(3), Polled("slow", 60, 60), Polled("late", 5, 10), Polled("now", backfill=False)]
    timings = [(b.interval_seconds, b.lag_seconds, b.backfill, len(b.members)) for b in make_bundles(mixed)]
    assert timings == [(5, 5, False, 1), (5, 5, True, 3), (5, 10, True, 1), (60, 60, True, 1)]


def test_a_target_that_comes_or_goes_changes_its_own_bundle_and_no_other() -> None:
    before = {bundle.name for bundle in make_bundles(targets(5000))}
    after = {bundle.name for bundle in make_bundles(targets(5001))}
    assert len(after - before) <= 2, "its bundle, or the two that it was cut into"
    assert len(before - after) == 1


def test_a_bundles_name_means_one_set_of_targets_and_slots_for_ever() -> None:
    (bundle,) = make_bundles(targets(3))
    assert make_bundles(reversed(targets(3))) == [bundle]
    others = [targets(2), [replace(each, lag_seconds=10) for each in targets(3)], [Polled("x"), *targets(2)]]
    assert bundle.name not in {each.name for other in others for each in make_bundles(other)}


def test_bundles_are_spread_over_the_interval_by_whole_seconds() -> None:
    offsets = [bundle.offset_seconds for bundle in make_bundles(targets(1000))]
    assert {offsets.count(second) for second in range(5)} <= {3, 4}
    # Above a minute it is asked for within the first minute; one that can only say "now", in its first half.
    long = [Polled(f"m{each}", 3600, 3600) for each in range(5000)]
    assert max(bundle.offset_seconds for bundle in make_bundles(long)) in range(50, 60)
    now = [Polled(f"m{each}", 10, 0, backfill=False) for each in range(5000)]
    assert max(bundle.offset_seconds for bundle in make_bundles(now)) == 4


@given(st.sets(st.text(min_size=1, max_size=8), max_size=300))
def test_every_target_is_in_exactly_one_bundle(names: set[str]) -> None:
    bundles = make_bundles(Polled(name) for name in names)
    assert members(bundles) == sorted(names)
    assert len({bundle.name for bundle in bundles}) == len(bundles)

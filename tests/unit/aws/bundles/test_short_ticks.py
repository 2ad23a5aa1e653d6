"""Which slots of a bundle a run asks for again: all of a missed minute in their turn, of who is down one only."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kizami.aws.bundles.short_ticks import BundleFinding, lacking_of, plan_bundle, rotated
from kizami.core.coverage import Gap, find_gaps
from kizami.core.reconcile import ReconcilePolicy, span_to_check
from kizami.core.slots import shift, slots_between
from kizami.core.targets.bundles import NamedBundle

NOW = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
POLICY = ReconcilePolicy()
MEMBERS = ("a", "b", "c")


def bundle(name: str = "bundle", backfill: bool = True) -> NamedBundle:
    return NamedBundle(name, 5, 5, backfill, 0, MEMBERS)


def minute_of(start: datetime) -> dict[datetime, frozenset[str]]:
    return {slot: frozenset(MEMBERS) for slot in slots_between(start, start + timedelta(minutes=1), 5)}


def planned(finding: BundleFinding, now: datetime) -> list[tuple[datetime, str]]:
    return [(each.window.start, name) for each in plan_bundle(finding, now, POLICY) for name in each.metrics]


def test_a_tick_lacks_who_is_noted_and_everybody_where_nothing_is_noted() -> None:
    gap = Gap(NOW, NOW + timedelta(seconds=10), 2)
    found = lacking_of(bundle(), [gap], {NOW: frozenset({1})})
    assert found == {NOW: {"b"}, NOW + timedelta(seconds=5): {"a", "b", "c"}}


@given(st.text(min_size=1, max_size=8))
def test_within_four_runs_every_slot_of_a_missed_minute_is_asked_for_exactly_once(name: str) -> None:
    """Whatever the bundle: a grace of 960 s is four runs of 300 s."""
    missed = minute_of(NOW)
    finding = BundleFinding(bundle(name), 100, missed, frozenset(MEMBERS))
    first = NOW + timedelta(seconds=POLICY.grace_seconds + 60 + 5)
    runs = [planned(finding, first + timedelta(seconds=POLICY.period_seconds * run)) for run in range(4)]
    asked = Counter(slot for run in runs for slot in run)
    assert asked == Counter({(slot, name): 1 for slot, names in missed.items() for name in names})


def test_bundles_do_not_all_have_their_turn_in_the_same_run() -> None:
    missed = minute_of(NOW)
    now = NOW + timedelta(minutes=30)
    findings = [BundleFinding(bundle(f"b{each}"), 100, missed, frozenset(MEMBERS)) for each in range(100)]
    sharing = sum(bool(planned(finding, now)) for finding in findings)
    assert 10 < sharing < 45


def test_who_is_down_is_asked_for_its_newest_slot_only_and_others_for_all() -> None:
    missed = minute_of(NOW)
    newest = max(missed)
    finding = BundleFinding(bundle(), 100, missed, frozenset({"a"}))
    for run in range(4):
        asked = planned(finding, NOW + timedelta(seconds=POLICY.grace_seconds + 65 + 300 * run))
        assert [each for each in asked if each[1] != "a"] == [(newest, "b"), (newest, "c")]


def test_what_can_only_say_now_is_asked_for_nothing() -> None:
    finding = BundleFinding(bundle(backfill=False), 100, minute_of(NOW), frozenset(MEMBERS))
    assert planned(finding, NOW + timedelta(minutes=30)) == []


def test_coverage_is_counted_in_slots_and_that_of_the_worst_member_is_told() -> None:
    lacking = {NOW: frozenset({"a"}), NOW + timedelta(seconds=5): frozenset({"a", "b"})}
    finding = BundleFinding(bundle(), 30, lacking)
    assert (finding.completeness.stored, finding.completeness.expected) == (27, 30)
    assert (finding.lowest.stored, finding.lowest.expected) == (8, 10)


def test_each_run_begins_with_another_bundle() -> None:
    bundles = [bundle(f"b{each}") for each in range(50)]
    firsts = {rotated(bundles, run)[0].name for run in range(20)}
    assert len(firsts) > 10
    assert sorted(each.name for each in rotated(bundles, 7)) == sorted(each.name for each in bundles)
    assert rotated([], 3) == []


def test_a_span_of_a_bundle_is_that_of_its_targets() -> None:
    span = span_to_check(bundle(), NOW, POLICY)
    assert span.end == shift(NOW, -POLICY.grace_seconds - 5 + 5)
    assert not list(find_gaps(span, span.slots()))

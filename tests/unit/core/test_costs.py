"""The monthly estimate: goals, a month counted by hand, and what each setting changes."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import exp, log10
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.aws.client import loop_client, secrets
from kizami.core import cost_figures
from kizami.core.answers.answer import Answer, parse_values
from kizami.core.bundles import make_plan
from kizami.core.cost_figures import FIGURES, OUT_TIERS, PRICES, CostLine, Section
from kizami.core.costs import (
    DAY,
    MONTH,
    BundleGroup,
    CostEstimate,
    Installation,
    PolledTargets,
    billed,
    estimate_cost,
    polls,
    slowest,
    units,
)
from kizami.core.errors import InvalidInput
from kizami.core.merging import HourFigures, columns_of, write_figures
from kizami.core.sealed_spans import HOUR, pack_slots
from kizami.core.summaries import BundleSummary, write_summary
from kizami.core.targets.target import Target
from kizami.core.ticks import Answered, Tick, write_first

ORIGINAL = Installation(is_original=True)
ORIGINAL_BEFORE = 1.412  # dollars a month, by the model of one record a slot and a look-back of three hours
THOUSAND = PolledTargets(1000)
SHARED_HOSTS = PolledTargets(100_000, hosts=1000)
CPU = 1769 / 1024  # GB


def estimate(*targets: PolledTargets, **settings: Any) -> CostEstimate:
    return estimate_cost(Installation(targets, **settings))


def line(found: CostEstimate, what: str) -> CostLine:
    (one,) = [line for line in found.lines if line.what == what]
    return one


def quantity(found: CostEstimate, what: str) -> float:
    return sum(line.quantity for line in found.lines if line.what == what)


def growth_a_slot(found: CostEstimate, kind: PolledTargets) -> float:
    return found.growth_bytes / (kind.metrics * MONTH / kind.interval_seconds)


class TestGoals:
    def test_the_original_target_costs_no_more_than_before(self) -> None:
        assert 1.35 < estimate_cost(ORIGINAL).total() <= ORIGINAL_BEFORE

    def test_one_configured_target_costs_at_most_1_75(self) -> None:
        assert 1.65 < estimate(PolledTargets()).total() <= 1.75

    def test_a_thousand_targets_cost_at_most_30(self) -> None:
        assert 25 < estimate(THOUSAND).total() <= 30

    def test_a_hundred_thousand_targets_on_a_thousand_hosts_cost_at_most_2900(self) -> None:
        assert 2500 < estimate(SHARED_HOSTS).total() <= 2900

    def test_a_hundred_thousand_hosts_cost_more_because_of_handshakes_alone(self) -> None:
        """An environment keeps 800 connections and seldom meets a bundle again while they are open."""
        found = estimate(PolledTargets(100_000))
        handshakes = line(found, "GB-seconds, Collector, TLS handshakes").dollars
        assert 2900 < found.total() < 3400
        assert found.total() - handshakes <= 2900
        assert any("TLS handshake" in note for note in found.notes)

    @pytest.mark.parametrize("hanging", [0.01, 0.1])
    @pytest.mark.parametrize("kind", [THOUSAND, SHARED_HOSTS])
    def test_hanging_targets_raise_the_bill_by_less_than_a_tenth(
        self, kind: PolledTargets, hanging: float
    ) -> None:
        assert estimate(kind).total() < estimate(kind, hanging=hanging).total() < 1.1 * estimate(kind).total()

    @pytest.mark.parametrize("digits", [1, 2])
    def test_a_small_count_grows_by_at_most_3_bytes_a_slot(self, digits: int) -> None:
        kind = replace(THOUSAND, digits=digits)
        assert growth_a_slot(estimate(kind), kind) <= 3


class TestOneSmallMonth:
    """Two targets a minute, one value of four digits each, counted by hand."""

    TICKS = 43_200  # one bundle
    RETRIES = TICKS * (1 - 0.9999**2)  # a request in ten thousand fails once
    BACKFILLS = TICKS / 1000  # messages about one tick each
    DELIVERIES = TICKS + RETRIES + BACKFILLS
    RUNS = 8640
    REQUESTS = 2 * TICKS + 2 * TICKS / 10_000 + 2 * BACKFILLS

    SLOW = 1 - 0.999**2  # an answer in a thousand comes after the first write
    WAIT_OF_TWO = 0.1 * (1 + log10(2))
    LIVE_WAIT = 0.02 + SLOW * 1.51 + (1 - SLOW) * WAIT_OF_TWO
    CPU_OF_TWO = 0.0025 + 2 * 0.0002
    TICK_BYTES = 80 + 2 * (2 + 3)
    SPAN_BYTES = 75 + 1440 * (1.55 + 4 * 0.41)  # a day of slots
    SUMMARY_BYTES = 120 + 1440 * 1.3

    @pytest.fixture
    def month(self) -> CostEstimate:
        return estimate(PolledTargets(2, interval_seconds=60))

    def expected(self) -> dict[str, tuple[float, float]]:
        """Quantity and price of a unit of each line."""
        return {**self.functions(), **self.database(), **self.rest()}

    def functions(self) -> dict[str, tuple[float, float]]:
        one_retry = 0.1 + 4 * 0.01
        retried = 2 * 0.0001 / (1 - 0.9999**2)
        assert 1 < retried < 1.0001  # members in a message: hardly ever two
        calls = 3 + (1440 + 2 * 2) / 25 + 2 / 100
        sealing = 0.25 * calls * 0.01 + CPU * (0.06 + 2 * 1440 * 5.5e-6 + 0.001 * calls)
        seconds = {
            "Sender": 43_200 * (0.125 * 3 * 0.01 + CPU * (0.0019 + 0.00005)),
            "Collector, live": self.TICKS * (0.25 * self.LIVE_WAIT + CPU * self.CPU_OF_TWO),
            "Collector, retry": self.RETRIES * (0.25 * (one_retry + 0.1 * log10(retried)) + CPU * 0.01),
            "Collector, backfill": self.BACKFILLS * (0.25 * (self.WAIT_OF_TWO + 0.03) + CPU * self.CPU_OF_TWO),
            "reconciler": self.RUNS * (0.25 * (0.05 + 0.01) + CPU * (0.02 + 0.0012)),
            "sealing": 30 * sealing,
        }
        price = 0.0000133334
        found = {f"GB-seconds, {name}": (1.02 * each, price) for name, each in seconds.items()}
        return {**found, "requests": (43_200 + self.RUNS + self.DELIVERIES, 0.2e-6)}

    def database(self) -> dict[str, tuple[float, float]]:
        assert self.SPAN_BYTES > 4096  # five write units, two read units
        writes = {
            "ticks, first answers": self.TICKS,
            "ticks, later answers": self.TICKS * self.SLOW + self.RETRIES + self.BACKFILLS,
            "ticks, deleted when sealed": self.TICKS,
            "sealed spans": 2 * 30 * 5,
            "day totals": 2 * (30 + 30),  # the first write of a day finds no item
            "summaries": 30 * 2,
            "marks": self.RUNS + 30,
            "minutes": 43_200,
        }
        again = self.RETRIES + self.BACKFILLS  # they read the tick, too
        reads = {
            "deliveries": 0.5 * (self.DELIVERIES + again),
            "reconciler": self.RUNS * (5 + 0.5 + 0.5),  # marks and such; five ticks; the newest one
            "sealing": 30 * 32 + 2 * 30 * 2,  # 1,440 ticks of 90 bytes, then the spans
        }
        stored = 30 * (self.SUMMARY_BYTES + 100) + 2 * 30 * (self.SPAN_BYTES + 100)
        stored += 2 * 30 * (60 + 24 * 20 + 100) + 26 / 24 * 1440 * (self.TICK_BYTES + 100)
        return {
            **{f"writes: {what}": (count, 0.625e-6) for what, count in writes.items()},
            **{f"reads: {what}": (count, 0.125e-6) for what, count in reads.items()},
            "GB kept": (stored / 1e9, 0.25),
            "GB restorable to any second": (stored / 1e9, 0.20),
        }

    def rest(self) -> dict[str, tuple[float, float]]:
        idle = 5 * 3 * 43_200  # five long polls of twenty seconds
        logs = 43_200 * 260 + self.DELIVERIES * 480 + self.RETRIES * 450 + self.RUNS * 620
        sqs = {
            "sent": self.DELIVERIES,
            "received": self.DELIVERIES / (1 - exp(-self.DELIVERIES / idle)),
            "deleted": self.DELIVERIES,
            "depths of queues": 2 * self.RUNS,
        }
        return {
            **{f"requests: {what}": (count, 0.4e-6) for what, count in sqs.items()},
            "GB of logs": (logs / 1e9, 0.50),
            "GB of logs kept": (0.15 * logs / 1e9, 0.03),
            "metrics": (6, 0.30),
            "alarms": (13, 0.10),
            "dashboards": (1, 3.00),
            "GB out, tier 1": (self.REQUESTS * 450 / 1e9, 0.09),
        }

    def test_each_line_is_what_was_counted(self, month: CostEstimate) -> None:
        counted = self.expected()
        assert {line.what for line in month.lines} == set(counted)
        for each in month.lines:
            count, dollars = counted[each.what]
            assert each.quantity == pytest.approx(count, rel=1e-3), each.what
            assert each.dollars == pytest.approx(count * dollars, rel=1e-3), each.what

    def test_the_total_is_their_sum_without_what_stands_apart(self, month: CostEstimate) -> None:
        counted = {what: count * dollars for what, (count, dollars) in self.expected().items()}
        apart = sum(counted.pop(what) for what in ("metrics", "alarms", "dashboards"))
        outside = counted.pop("GB out, tier 1")
        assert month.total() == pytest.approx(sum(counted.values()), rel=1e-4)
        assert month.total(Section.APART) == pytest.approx(apart)
        assert month.total(Section.OUTSIDE) == pytest.approx(outside, rel=1e-3)


class TestSums:
    def test_sections_add_up_to_all_lines(self) -> None:
        found = estimate(THOUSAND, production=True, hanging=0.1, secrets=3, mock="http")
        assert found.total(*Section) == pytest.approx(sum(line.dollars for line in found.lines))
        assert found.total(*Section) == pytest.approx(sum(found.total(section) for section in Section))

    def test_lines_of_one_price_share_the_free_tier(self) -> None:
        found = estimate(THOUSAND)
        left = dict(zip((line.what for line in found.lines), found.after_free_tier(), strict=True))
        requests = [line for line in found.lines if line.price_name == "sqs_request"]
        paid = sum(line.quantity for line in requests) - 1e6
        assert sum(left[line.what] for line in requests) == pytest.approx(paid * 0.4e-6)
        assert left["GB kept"] == 0
        assert left["writes: ticks, first answers"] == line(found, "writes: ticks, first answers").dollars

    def test_no_line_is_empty_and_none_is_there_twice(self) -> None:
        found = estimate(THOUSAND, production=True, secrets=3)
        assert all(line.quantity > 0 for line in found.lines)
        assert len({(line.service, line.what) for line in found.lines}) == len(found.lines)

    def test_without_targets_only_what_always_runs_costs(self) -> None:
        found = estimate(PolledTargets(0))
        assert 0.3 < found.total() < 0.6  # Sender, reconciler, one idle queue
        assert (found.total(Section.OUTSIDE), found.growth_bytes) == (0, 0)
        assert estimate().total() == pytest.approx(found.total())

    def test_kinds_of_one_timing_share_bundles(self) -> None:
        assert estimate(PolledTargets(500), PolledTargets(500)).total() == pytest.approx(
            estimate(THOUSAND).total()
        )
        mixed = estimate(PolledTargets(50), PolledTargets(50, interval_seconds=60))
        ticks = quantity(mixed, "writes: ticks, first answers")
        assert ticks == MONTH / 5 + MONTH / 60

    @settings(max_examples=100, deadline=None)
    @given(
        st.integers(0, 20_000),
        st.integers(1, 2000),
        st.sampled_from([1, 5, 60, 300, 3600]),
        st.integers(1, 5),
        st.sampled_from([0.0, 0.1]),
    )
    def test_more_targets_cost_more(
        self, count: int, more: int, interval: int, values: int, hanging: float
    ) -> None:
        fewer, many = (
            estimate(PolledTargets(each, interval, values), hanging=hanging) for each in (count, count + more)
        )
        assert fewer.total() < many.total()
        assert fewer.total(Section.OUTSIDE) < many.total(Section.OUTSIDE)
        assert fewer.growth_bytes < many.growth_bytes


class TestTargets:
    def test_several_values_share_a_request_and_fill_bundles(self) -> None:
        one, five = estimate(PolledTargets(100)), estimate(PolledTargets(100, values=5))
        ticks = "writes: ticks, first answers"
        assert quantity(five, ticks) == 5 * quantity(one, ticks)
        assert quantity(five, "writes: sealed spans") == 5 * quantity(one, "writes: sealed spans")
        assert five.total(Section.OUTSIDE) == pytest.approx(one.total(Section.OUTSIDE), rel=0.01)
        assert one.total() < five.total() < 5 * one.total()
        same_values = estimate(PolledTargets(500))
        assert five.total() < same_values.total()

    def test_large_numbers_take_two_write_units_and_the_bill_says_so(self) -> None:
        small, large = (estimate(replace(THOUSAND, digits=digits)) for digits in (9, 16))
        for what in ("writes: ticks, first answers", "writes: ticks, deleted when sealed"):
            assert quantity(large, what) == 2 * quantity(small, what)
        assert [note for note in large.notes if "2 write units" in note]
        assert not [note for note in small.notes if "write units" in note]

    @pytest.mark.parametrize(
        "change",
        [
            {"interval_seconds": 10},
            {"values": 2},
            {"digits": 9},
            {"keeps_connections": False},
            {"hosts": 10},
            {"keep_days": 1},
            {"backfill": False},
        ],
    )
    def test_each_setting_of_a_target_changes_the_bill(self, change: dict[str, Any]) -> None:
        assert estimate(replace(THOUSAND, **change)).lines != estimate(THOUSAND).lines

    def test_fresh_connections_cost_cpu_and_traffic(self) -> None:
        kept, fresh = (estimate(replace(THOUSAND, keeps_connections=kept, hosts=100)) for kept in (True, False))
        handshakes = line(fresh, "GB-seconds, Collector, TLS handshakes")
        assert handshakes.quantity == pytest.approx(518_400_000 * 0.00045 * CPU * 1.02, rel=0.01)
        assert fresh.total() - kept.total() == pytest.approx(handshakes.dollars, rel=0.01)
        assert kept.total(Section.OUTSIDE) == pytest.approx(21, rel=0.02)
        assert fresh.total(Section.OUTSIDE) == pytest.approx(65, rel=0.02)

    def test_a_connection_is_not_kept_for_five_minutes(self) -> None:
        assert quantity(estimate(PolledTargets(300, 300)), "GB-seconds, Collector, TLS handshakes")
        assert not quantity(estimate(PolledTargets(60, 60)), "GB-seconds, Collector, TLS handshakes")

    def test_keep_ends_the_growth_of_spans_and_leaves_totals(self) -> None:
        kept = replace(THOUSAND, keep_days=30)
        forever, bounded = estimate(THOUSAND, months=3), estimate(kept, months=3)
        assert 0 < bounded.growth_bytes < 0.1 * forever.growth_bytes
        assert quantity(bounded, "GB kept") < quantity(forever, "GB kept")
        assert bounded.lines != estimate(kept, months=2).lines

    def test_storage_grows_by_the_same_each_month(self) -> None:
        first, year = estimate(THOUSAND), estimate(THOUSAND, months=12)
        more = quantity(year, "GB kept") - quantity(first, "GB kept")
        assert more * 1e9 == pytest.approx(11 * first.growth_bytes)


class TestInstallation:
    @pytest.mark.parametrize(
        "change",
        [
            {"failing": 0.1},
            {"hanging": 0.1},
            {"failing_once": 0.1},
            {"months": 2},
            {"secrets": 1},
            {"mock": "rest"},
            {"aggregation": True},
            {"monitoring": "minimal"},
            {"provisioned": (25, 25)},
            {"warnings_only": True},
            {"production": True},
        ],
    )
    def test_each_setting_changes_the_bill(self, change: dict[str, Any]) -> None:
        assert estimate(THOUSAND, **change).lines != estimate(THOUSAND).lines

    @pytest.mark.parametrize("change", [{"nat_per_zone": True}, {"flow_logs": "all"}])
    def test_each_setting_of_the_network_changes_the_bill_of_production(self, change: dict[str, Any]) -> None:
        plain, changed = (estimate(THOUSAND, production=True, **each) for each in ({}, change))
        assert changed.total() == plain.total()
        assert changed.total(Section.APART) > plain.total(Section.APART)

    def test_flow_logs_of_all_fresh_connections_are_dear(self) -> None:
        fresh = replace(THOUSAND, keeps_connections=False)
        all_flows = estimate(fresh, production=True, flow_logs="all")
        assert line(all_flows, "GB of flow logs").dollars == pytest.approx(125, rel=0.02)
        assert line(estimate(fresh, production=True), "GB of flow logs").dollars < 0.01

    def test_nat_carries_more_of_fresh_connections(self) -> None:
        kept, fresh = (
            estimate(PolledTargets(1000, keeps_connections=kept, hosts=100), production=True)
            for kept in (True, False)
        )
        assert line(kept, "GB through them").dollars == pytest.approx(35, rel=0.02)
        assert line(fresh, "GB through them").dollars == pytest.approx(163, rel=0.02)

    def test_targets_that_are_down_are_probed_and_not_polled(self) -> None:
        well, failing, hanging = (estimate(THOUSAND, **each) for each in ({}, {"failing": 0.1}, {"hanging": 0.1}))
        probes = 10 * MONTH / 300 * (1 - 0.9**100)  # a message each five minutes for each bundle
        timed_out = line(hanging, "GB-seconds, Collector, probe").quantity
        seconds = 0.04 + (10 + 1.5 + 1.5) / 3
        assert timed_out == pytest.approx(probes * 1.02 * billed(0.25, 0.01, seconds), rel=0.001)
        assert line(failing, "GB-seconds, Collector, probe").quantity < timed_out / 10
        assert quantity(hanging, "writes: states of targets") == pytest.approx(100 * MONTH / 300)
        assert quantity(hanging, "writes: sealed spans") == 0.9 * quantity(well, "writes: sealed spans")

    def test_probes_without_backfill_have_the_whole_timeout(self) -> None:
        found = (estimate(replace(THOUSAND, backfill=backfill), hanging=0.1) for backfill in (True, False))
        impatient, patient = (line(each, "GB-seconds, Collector, probe").quantity for each in found)
        assert patient / impatient == pytest.approx(10 / (13 / 3), rel=0.02)

    def test_the_bill_says_nothing_of_connections_that_hosts_do_not_keep(self) -> None:
        assert estimate(THOUSAND).notes
        assert not estimate(replace(THOUSAND, keeps_connections=False)).notes

    def test_requests_that_fail_once_make_a_retry_of_nearly_every_tick(self) -> None:
        found = estimate(THOUSAND, failing_once=0.1)
        assert quantity(found, "writes: ticks, later answers") > 0.99 * 5_184_000
        assert found.total() > 1.4 * estimate(THOUSAND).total()

    def test_secrets_are_read_by_each_environment(self) -> None:
        few, many = (estimate(PolledTargets(count), secrets=10) for count in (100, 10_000))
        assert line(few, "secrets").dollars == 4
        assert quantity(few, "reads") == 10 * 8640
        assert 15 < quantity(many, "reads") / quantity(few, "reads") < 20  # twenty environments

    def test_provisioned_capacity_replaces_writes_and_reads(self) -> None:
        found = estimate(THOUSAND, provisioned=(10, 25))
        database = {line.what: line.dollars for line in found.lines if line.service == "DynamoDB"}
        assert database.pop("hours of a write a second") == pytest.approx(7200 * 0.00065)
        assert database.pop("hours of a read a second") == pytest.approx(18_000 * 0.00013)
        assert set(database) == {"GB kept", "GB restorable to any second"}

    def test_the_mock_api_is_asked_for_every_slot(self) -> None:
        found = estimate_cost(replace(ORIGINAL, mock="rest"))
        assert line(found, "requests of the mock API").dollars == pytest.approx(1.8144)
        assert quantity(found, "requests") == 43_200 + 8_640 + 2 * 518_400

    def test_data_out_has_tiers(self) -> None:
        found = estimate(PolledTargets(100_000, keeps_connections=False))
        out = [line.quantity for line in found.lines if line.section is Section.OUTSIDE]
        assert out[:2] == list(OUT_TIERS[:2])
        assert sum(out) == pytest.approx(51_840_000_000 * 1400 / 1e9, rel=0.01)

    @pytest.mark.parametrize(
        "shares", [{"failing": 0.6, "hanging": 0.6}, {"failing_once": 1.1}, {"hanging": -0.1}]
    )
    def test_a_share_that_is_none_is_refused(self, shares: dict[str, float]) -> None:
        with pytest.raises(InvalidInput):
            Installation(**shares)  # type: ignore[arg-type]

    def test_nothing_answers_where_all_targets_are_down(self) -> None:
        found = estimate(THOUSAND, failing=0.5, hanging=0.5)
        assert quantity(found, "writes: sealed spans") == quantity(found, "writes: day totals") == 0
        assert found.total() < 1.2 * estimate(THOUSAND).total()


class TestOriginalTarget:
    def test_its_slots_are_rows_messages_and_invocations_as_before(self) -> None:
        found = estimate_cost(ORIGINAL)
        assert quantity(found, "writes: rows") == 518_400
        assert quantity(found, "requests") == 43_200 + 8_640 + 518_400
        assert quantity(found, "requests: sent") == 2 * 43_200
        assert quantity(found, "requests: received") == pytest.approx(518_400 / (1 - exp(-0.8)))
        assert not [line for line in found.lines if "tick" in line.what or "sealed spans" in line.what]

    def test_a_row_takes_190_bytes(self) -> None:
        assert growth_a_slot(estimate_cost(ORIGINAL), PolledTargets()) == pytest.approx(190, abs=2)

    def test_a_failed_slot_is_delivered_again(self) -> None:
        found = estimate_cost(replace(ORIGINAL, failing_once=0.1))
        assert quantity(found, "requests: deleted") == pytest.approx(1.1 * 518_400)
        assert quantity(found, "requests: sent") == 2 * 43_200


class TestFigures:
    def test_each_price_and_figure_has_a_unit_and_a_source(self) -> None:
        assert all(price.unit and price.source and price.dollars > 0 < price.per for price in PRICES.values())
        assert all(figure.unit and figure.source and figure > 0 for figure in FIGURES.values())
        public = [name for name, value in vars(cost_figures).items() if isinstance(value, float)]
        assert set(public) == set(FIGURES)

    def test_prices_of_what_is_used_most(self) -> None:
        million = {name: PRICES[name].dollars / PRICES[name].per * 1e6 for name in PRICES}
        assert million["lambda_request"] == pytest.approx(0.20)
        assert million["lambda_gb_second"] == pytest.approx(13.3334)
        assert million["sqs_request"] == pytest.approx(0.40)
        assert (million["dynamodb_write"], million["dynamodb_read"]) == pytest.approx((0.625, 0.125))

    def test_limits_of_the_functions_are_those_that_are_counted(self) -> None:
        assert int(cost_figures.MOST_KEPT) == loop_client.MOST_KEPT
        assert cost_figures.SECRET_SECONDS == secrets.KEPT_SECONDS

    @pytest.mark.parametrize(
        ("targets", "values"), [(1, 1), (100, 1), (101, 1), (1000, 1), (250, 3), (40, 30), (9, 60)]
    )
    def test_there_are_as_many_bundles_as_are_counted(self, targets: int, values: int) -> None:
        answer = Answer(values=parse_values({f"value{number}": f"/{number}" for number in range(values)}))
        made = make_plan(Target(name=f"target-{number}", answer=answer) for number in range(targets))
        group = BundleGroup(Installation(), [PolledTargets(targets, values=values)], 0.25)
        assert group.count == len(made.bundles)

    @pytest.mark.parametrize("digits", [1, 4, 9, 15])
    def test_a_tick_is_as_large_as_is_counted(self, digits: int) -> None:
        plan = make_plan(Target(name=f"m{number}") for number in range(100))
        answers = {place: Answered((10**digits - 1,), 0, 180) for place in range(100)}
        item = len("metricName#tick 3f9c2a41.17slotTime2026-11-17T10:00:00Zav") + 3  # an empty map
        actual = item + len(write_first(900, plan.bundles[0], answers))
        counted = BundleGroup(Installation(), [PolledTargets(100, digits=digits)], 0.25).tick_bytes
        assert actual <= counted <= 1.05 * actual

    @pytest.mark.parametrize("digits", [1, 4, 9])
    def test_a_sealed_span_is_as_large_as_is_counted(self, digits: int) -> None:
        chance = random.Random(digits)
        bundle = make_plan(Target(name=f"m{number}") for number in range(10)).bundles[0]
        ticks = []
        for slot in range(720):
            late = chance.uniform(0, 1000)
            steps = [int((late + chance.lognormvariate(4.6, 0.5)) / 10) for _ in range(10)]
            values = [chance.randrange(10 ** (digits - 1), 10**digits) for _ in range(10)]
            answers = {place: Answered((values[place],), 0, steps[place]) for place in range(10)}
            at = datetime(2026, 11, 17, 10, tzinfo=UTC) + timedelta(seconds=5 * slot)
            ticks.append(Tick(at, answers, int(late)))
        sizes = [len(pack_slots(slots.columns)) for slots in columns_of(bundle, ticks).values()]
        kind = PolledTargets(digits=digits)
        counted = BundleGroup(Installation(), [kind], 0.25).span_bytes(kind) - cost_figures.SPAN_BYTES
        assert sum(sizes) / len(sizes) == pytest.approx(counted, rel=0.05)

    def test_summaries_and_figures_of_days_are_as_large_as_is_counted(self) -> None:
        chance = random.Random(1)
        late = {5 * slot: chance.randrange(1000) for slot in range(720)}
        summary = len(write_summary(BundleSummary(5, 0, HOUR, {}, late)))
        counted = BundleGroup(Installation(), [PolledTargets()], 0.25).summary_bytes
        assert summary <= counted <= 1.2 * summary
        figures = write_figures(1, 0, [HourFigures(0, 720, 0, 9999, 3_600_000, 0)])
        assert len("h00") + len(figures) <= cost_figures.HOUR_BYTES

    def test_less_memory_makes_computing_longer_and_waiting_cheaper(self) -> None:
        assert billed(0.125, 0, 2) == 0.25
        assert billed(0.125, 1, 0) == billed(1, 1, 0) == pytest.approx(CPU)

    def test_a_queue_is_polled_a_little_more_often_than_it_has_messages(self) -> None:
        idle = 5 * 3 * 43_200
        assert polls(0) == idle
        assert polls(518_400) == pytest.approx(518_400 / (1 - exp(-0.8)))
        assert polls(100 * DAY * 30) == pytest.approx(100 * DAY * 30)

    def test_the_slowest_of_a_hundred_takes_three_times_as_long_as_one(self) -> None:
        assert [slowest(count) for count in (0, 0.5, 1, 100)] == pytest.approx([0, 0.05, 0.1, 0.3])

    def test_a_unit_is_begun_by_its_first_byte(self) -> None:
        assert [units(size, 1024) for size in (0, 1, 1024, 1025)] == [1, 1, 1, 2]

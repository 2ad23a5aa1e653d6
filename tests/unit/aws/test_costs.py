"""The monthly estimate: each part counted by hand, and the verb that prints it."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import pytest
from click.testing import CliRunner

from kizami.aws.costs import assumptions
from kizami.aws.costs.bill import Part, estimate, growth, total, total_after_free
from kizami.aws.costs.deployment import Deployment, billed, polls
from kizami.aws.costs.prices import PRICES, PRICES_OF, SEED_ESTIMATE
from kizami.cli.main import kizami

SEEDS = Deployment([5], mock="rest")
IDLE_QUEUE = 5 * 3 * 43_200  # five long polls of twenty seconds each


def part(parts: list[Part], service: str, what: str) -> Part:
    (found,) = [part for part in parts if (part.service, part.what) == (service, what)]
    return found


def running(deployment: Deployment) -> list[Part]:
    """Without what stands apart."""
    return [part for part in estimate(deployment) if not part.apart]


@pytest.fixture(autouse=True)
def no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KIZAMI_CONFIG", raising=False)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(kizami, ["cost", *arguments])
    return result.exit_code, result.stdout


def test_the_list_prices_are_those_of_us_east_and_each_is_dated() -> None:
    def of_a_million(name: str) -> float:
        return round(PRICES[name].dollars * 1_000_000 / PRICES[name].per, 4)

    assert of_a_million("lambda_request") == 0.20
    assert PRICES["lambda_gb_second"].dollars == 0.0000133334
    assert of_a_million("sqs_request") == 0.40
    assert of_a_million("dynamodb_write") == 0.625
    assert (of_a_million("rest_request"), of_a_million("http_request")) == (3.50, 1.00)
    assert PRICES["logs_gb"].dollars == 0.50
    assert {price.of for price in PRICES.values()} == {PRICES_OF}


@pytest.mark.parametrize(
    ("targets", "capacity", "most"),
    [
        (1, "on_demand", 1.90),  # and 0.80 after the free tier
        (1000, "on_demand", 400),
        (1000, "provisioned", 200),
        (100_000, "on_demand", 40_000),
        (100_000, "provisioned", 20_000),
    ],
)
def test_the_bill_stays_below_what_was_aimed_at(targets: int, capacity: str, most: float) -> None:
    parts = running(Deployment([5] * targets, capacity=capacity))
    assert total(parts) <= most
    assert targets > 1 or total_after_free(parts) <= 0.80


def test_one_target_every_five_seconds_makes_17280_slots_a_day() -> None:
    parts = estimate(SEEDS)
    assert part(parts, "DynamoDB", "writes").quantity == 30 * 17_280
    assert part(parts, "DynamoDB", "writes").dollars == pytest.approx(0.324)
    assert part(parts, "API Gateway", "requests of the mock API").dollars == pytest.approx(1.8144)
    # The Sender each minute, the reconciler every five, and the Collector and the mock for each slot.
    assert part(parts, "Lambda", "requests").quantity == 43_200 + 8_640 + 2 * 518_400


def test_an_http_api_is_less_than_a_third_of_a_rest_api() -> None:
    (http,) = [part for part in estimate(Deployment([5], mock="http")) if part.service == "API Gateway"]
    assert http.dollars == pytest.approx(0.5184)


def test_a_queue_is_polled_as_often_as_it_has_messages_and_a_little_more_where_it_has_few() -> None:
    assert polls(0) == IDLE_QUEUE
    assert polls(1e-9) == pytest.approx(IDLE_QUEUE)
    assert polls(0.2) == pytest.approx(518_400 / (1 - exp(-0.8)))
    assert polls(100) == pytest.approx(100 * 2_592_000)


def test_sqs_counts_sending_receiving_deleting_and_idle_polling() -> None:
    requests = part(estimate(SEEDS), "SQS", "requests").quantity
    assert requests == pytest.approx(43_200 * 2 + polls(0.2) + 518_400)
    assert Deployment([5, 5]).receives == pytest.approx(polls(0.2) + IDLE_QUEUE)  # the backfill queue of a bundle
    with_batch = part(estimate(Deployment([5], aggregation=True)), "SQS", "requests").quantity
    assert with_batch == pytest.approx(requests + IDLE_QUEUE)


def test_an_hourly_target_costs_what_its_few_slots_do() -> None:
    parts = estimate(Deployment([3600]))
    assert part(parts, "DynamoDB", "writes").quantity == 720
    assert part(parts, "SQS", "requests").quantity == pytest.approx(720 + polls(1 / 3600) + 720)
    assert part(parts, "DynamoDB", "reads of the reconciler").quantity == 8640
    assert total(parts) < total(estimate(Deployment([5])))


def test_less_memory_makes_computing_longer_and_waiting_cheaper() -> None:
    assert billed(0.125, 0, 2) == 0.25
    assert billed(0.125, 1, 0) == billed(1, 1, 0) == pytest.approx(1769 / 1024)


def test_without_the_mock_there_is_no_api_gateway() -> None:
    assert "API Gateway" not in {part.service for part in estimate(Deployment([5]))}


def test_the_free_tier_takes_off_what_it_covers_and_no_more() -> None:
    parts = estimate(SEEDS)
    requests = part(parts, "SQS", "requests")
    assert part(parts, "Lambda", "GB-seconds").dollars_after_free == 0
    assert requests.dollars_after_free == pytest.approx((requests.quantity - 1e6) * 0.40 / 1e6)
    assert part(parts, "DynamoDB", "writes").dollars_after_free == part(parts, "DynamoDB", "writes").dollars
    free = part(estimate(Deployment([5], capacity="provisioned")), "DynamoDB", "hours of a write a second")
    assert (free.quantity, free.dollars_after_free) == (5 * 720, 0)


def test_what_is_kept_grows_with_the_months_until_it_is_let_go() -> None:
    first, year = Deployment([5] * 1000), Deployment([5] * 1000, months=12)
    kept = [part(estimate(each), "DynamoDB", "GB kept").quantity for each in (first, year)]
    gigabytes, dollars = growth(first)
    assert kept[1] - kept[0] == pytest.approx(11 * gigabytes)
    assert total(estimate(year)) - total(estimate(first)) == pytest.approx(11 * dollars)
    bounded = Deployment([5] * 1000, months=12, keeps=[30] * 1000)
    assert growth(bounded) == (0, 0)
    spare = gigabytes * assumptions.SPARE_DAYS / 30
    totals = 1000 * 330 * 24 * assumptions.TOTALS_BYTES / 1e9
    assert part(estimate(bounded), "DynamoDB", "GB kept").quantity == pytest.approx(kept[0] + spare + totals)


def test_totals_of_what_is_let_go_are_counted_once_it_is_old_enough() -> None:
    young, old = (Deployment([5] * 1000, months=months, keeps=[90.0, None] * 500) for months in (3, 4))
    assert not [each for each in estimate(young) if "totals" in each.what]
    hours = 500 * 30 * 24
    assert part(estimate(old), "DynamoDB", "writes of totals").quantity == hours
    # 720 records of 90 bytes are 16 times 4 KB, read at half price; two short reads say where to go on.
    assert part(estimate(old), "DynamoDB", "reads for totals").quantity == hours * 10
    seconds = [part(estimate(each), "Lambda", "GB-seconds").quantity for each in (young, old)]
    assert seconds[1] - seconds[0] == pytest.approx(hours * assumptions.TOTALS_CPU * 1769 / 1024, rel=0.3)
    provisioned = Deployment([5] * 1000, months=4, keeps=[90.0] * 1000, capacity="provisioned")
    assert part(estimate(provisioned), "DynamoDB", "hours of a read a second").quantity == (25 + 6) * 720


def test_logs_of_warnings_only_cost_nearly_nothing() -> None:
    many = [5] * 1000
    loud = part(estimate(Deployment(many)), "CloudWatch", "GB of logs")
    quiet = part(estimate(Deployment(many, log_level="warn")), "CloudWatch", "GB of logs")
    assert quiet.dollars < loud.dollars / 100


def test_production_adds_the_network_with_its_address_the_keys_and_the_secret() -> None:
    added = [part for part in estimate(Deployment([5], production=True)) if part.service == "Production"]
    through = part(added, "Production", "GB through it").dollars
    assert total(added) == pytest.approx(720 * (0.045 + 0.005) + 3 + 0.40 + through)
    assert all(each.apart for each in added)


def test_a_nat_gateway_in_each_zone_is_counted_where_there_is_a_network() -> None:
    def added(*arguments: str) -> float:
        parts = json.loads(run("--json", "--production", *arguments)[1])["parts"]
        return float(sum(each["dollars"] for each in parts if each["service"] == "Production"))

    assert added("--nat-per-zone") - added() == pytest.approx(720 * (0.045 + 0.005))
    assert run("--nat-per-zone")[0] == 2


def test_the_least_monitoring_is_alarms_alone() -> None:
    def fixed(monitoring: str) -> list[str]:
        parts = estimate(Deployment([5], monitoring=monitoring))
        return [part.what for part in parts if part.service == "Monitoring"]

    assert (fixed("full"), fixed("minimal")) == (["metrics", "alarms", "dashboards"], ["alarms"])


def test_the_verb_prints_every_part_beside_the_estimate_of_the_seeds() -> None:
    code, output = run()
    assert code == 0
    sums = {line.split("  ")[0]: line.split()[-1] for line in output.splitlines() if "together" in line}
    assert {service: sums[service] for service in SEED_ESTIMATE} == {
        service: f"${dollars:.2f}" for service, dollars in SEED_ESTIMATE.items()
    }
    assert output.splitlines()[-1].split()[0] == "total"
    assert output.splitlines()[-1].endswith("$2.10")


def test_json_has_the_same_sums_and_tells_apart_what_one_may_do_without() -> None:
    code, output = run("--json", "--targets", "10", "--interval", "10s", "--mock", "http")
    document = json.loads(output)
    assert code == 0
    assert document["targets"] == 10
    sums = [
        sum(part["dollars"] for part in document["parts"] if part["apart"] is apart) for apart in (False, True)
    ]
    assert [document["dollars"], document["dollarsWithApart"]] == pytest.approx([sums[0], sum(sums)], abs=0.01)
    assert {part["service"] for part in document["parts"] if part["apart"]} == {"API Gateway", "Monitoring"}
    assert {part["price"]["of"] for part in document["parts"]} == {PRICES_OF}


def test_a_config_counts_its_enabled_targets_each_with_its_interval_and_their_secrets(tmp_path: Path) -> None:
    (tmp_path / "kizami.toml").write_text(
        '[[targets]]\nname = "a"\nurl = "https://a.example"\ninterval = "60s"\n'
        'headers = { x-api-key = "secretsmanager:a" }\n'
        '[[targets]]\nname = "b"\nurl = "https://b.example"\nenabled = false\n'
    )
    document = json.loads(run("--json")[1])
    (writes,) = [part for part in document["parts"] if part["part"] == "writes"]
    assert (document["targets"], writes["quantity"]) == (1, 43_200)
    (secrets,) = [part for part in document["parts"] if part["part"] == "secrets"]
    assert secrets["dollars"] == 0.40


def test_a_config_is_deployed_without_the_mock_api_and_its_secret(tmp_path: Path) -> None:
    (tmp_path / "kizami.toml").write_text('[[targets]]\nname = "a"\nurl = "https://a.example"\n')
    parts = json.loads(run("--json", "--production")[1])["parts"]
    assert {part["service"] for part in parts if part["apart"]} == {"Monitoring", "Production"}
    assert "secrets of the mock API" not in {part["part"] for part in parts}
    code, output = run("--mock", "rest")
    assert (code, output) == (2, "")


def test_several_targets_need_a_config_so_they_are_counted_without_the_mocks_secret() -> None:
    assert [part.what for part in estimate(Deployment([5], production=True)) if "secret" in part.what]
    assert not [part.what for part in estimate(Deployment([5] * 2, production=True)) if "secret" in part.what]

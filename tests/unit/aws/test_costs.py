"""The monthly estimate: each part counted by hand, and the verb that prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kizami.aws.costs import PRICES, SEED_ESTIMATE, Deployment, Part, estimate
from kizami.cli.main import kizami

SEEDS = Deployment([5], with_mock=True)


def part(parts: list[Part], service: str, what: str) -> Part:
    (found,) = [part for part in parts if (part.service, part.what) == (service, what)]
    return found


@pytest.fixture(autouse=True)
def no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KIZAMI_CONFIG", raising=False)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(kizami, ["cost", *arguments])
    return result.exit_code, result.stdout


def test_the_list_prices_are_those_of_us_east() -> None:
    def of_a_million(name: str) -> float:
        return round(PRICES[name].dollars * 1_000_000 / PRICES[name].per, 4)

    assert of_a_million("lambda_request") == 0.20
    assert PRICES["lambda_gb_second"].dollars == 0.0000133334
    assert of_a_million("sqs_request") == 0.40
    assert of_a_million("dynamodb_write") == 0.625
    assert of_a_million("api_gateway_request") == 3.50
    assert PRICES["logs_gb"].dollars == 0.50


def test_one_target_every_five_seconds_makes_17280_slots_a_day() -> None:
    parts = estimate(SEEDS)
    assert part(parts, "DynamoDB", "writes").quantity == 30 * 17_280
    assert part(parts, "DynamoDB", "writes").dollars == pytest.approx(0.324)
    assert part(parts, "API Gateway", "requests of the mock API").dollars == pytest.approx(1.8144)
    # The Sender each minute, the reconciler every five, and the Collector and the mock for each slot.
    assert part(parts, "Lambda", "requests").quantity == 43_200 + 8_640 + 2 * 518_400


def test_sqs_counts_sending_receiving_deleting_and_idle_polling() -> None:
    requests = part(estimate(SEEDS), "SQS", "requests").quantity
    assert requests == 43_200 * 2 + 518_400 * 2 + 3 * 5 * 3 * 43_200


def test_without_the_mock_there_is_no_api_gateway() -> None:
    assert "API Gateway" not in {part.service for part in estimate(Deployment([5]))}


def test_the_free_tier_takes_off_what_it_covers_and_no_more() -> None:
    parts = estimate(SEEDS)
    assert part(parts, "Lambda", "GB-seconds").dollars_after_free == 0
    assert part(parts, "SQS", "requests").dollars_after_free == pytest.approx((3_067_200 - 1e6) * 0.40 / 1e6)
    assert part(parts, "DynamoDB", "writes").dollars_after_free == part(parts, "DynamoDB", "writes").dollars


def test_batches_share_invocations_only_among_targets_that_are_due_together() -> None:
    alone, batched = Deployment([5], batch_size=10), Deployment([5] * 100, batch_size=10)
    assert alone.invocations == alone.slots
    assert batched.invocations == batched.slots / 10


def test_logs_of_warnings_only_cost_nearly_nothing() -> None:
    many = [5] * 1000
    loud = part(estimate(Deployment(many)), "CloudWatch", "GB of logs")
    quiet = part(estimate(Deployment(many, warnings_only=True)), "CloudWatch", "GB of logs")
    assert quiet.dollars < loud.dollars / 1000


def test_production_adds_the_network_the_keys_and_the_secret() -> None:
    added = [part for part in estimate(Deployment([5], production=True)) if part.service == "Production"]
    assert sum(part.dollars for part in added) == pytest.approx(720 * 0.045 + 3 + 0.40)


def test_the_verb_prints_every_part_beside_the_estimate_of_the_seeds() -> None:
    code, output = run()
    assert code == 0
    sums = {line.split("  ")[0]: line.split()[-1] for line in output.splitlines() if "together" in line}
    assert {service: sums[service] for service in SEED_ESTIMATE} == {
        service: f"${dollars:.2f}" for service, dollars in SEED_ESTIMATE.items()
    }
    assert output.splitlines()[-1].split()[0] == "total"
    assert output.splitlines()[-1].endswith("$2.10")


def test_json_has_the_same_sums() -> None:
    code, output = run("--json", "--targets", "10", "--interval", "10s")
    document = json.loads(output)
    assert code == 0
    assert document["targets"] == 10
    assert document["dollars"] == pytest.approx(sum(part["dollars"] for part in document["parts"]), abs=0.01)


def test_a_config_counts_its_enabled_targets_each_with_its_interval(tmp_path: Path) -> None:
    (tmp_path / "kizami.toml").write_text(
        '[[targets]]\nname = "a"\nurl = "https://a.example"\ninterval = "60s"\n'
        '[[targets]]\nname = "b"\nurl = "https://b.example"\nenabled = false\n'
    )
    document = json.loads(run("--json")[1])
    (writes,) = [part for part in document["parts"] if part["part"] == "writes"]
    assert (document["targets"], writes["quantity"]) == (1, 43_200)

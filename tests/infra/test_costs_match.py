"""What `kizami cost` counts is what the template has, and what the documents say is what it counts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from aws_here.template import Template, synthesize
from kizami.aws.costs import assumptions, bill, deployment
from kizami.aws.costs.bill import Part, estimate, growth, total, total_after_free
from kizami.aws.costs.deployment import Deployment
from kizami.aws.costs.prices import PRICES, SEED_ESTIMATE
from kizami.aws.history import keeping
from kizami.aws.reconciler import NAMESPACE as PUBLISHED
from kizami.aws.store.tick_ledger import KEPT_SECONDS
from kizami.core.targets.bundles import make_bundles
from kizami.core.targets.target import Target
from samples.written_tables import DOCS, table_after

ROOT = Path(__file__).parents[2]
PUBLISHED_METRICS = 4  # by the reconciler, in its log line
# A decision whose amounts are those of a dated simulation.
SIMULATED = re.compile(r"^## Hosts that hang on AWS .*?^## ", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("monitoring", ["full", "minimal"])
@pytest.mark.parametrize("aggregation", [False, True])
def test_alarms_metrics_and_dashboards_are_those_of_the_template(monitoring: str, aggregation: bool) -> None:
    context = {"aggregation": "true"} if aggregation else {}
    template = synthesize(**context, **({"monitoring": "minimal"} if monitoring == "minimal" else {}))
    alarms = bill.ALARMS[monitoring] + aggregation * bill.AGGREGATION_ALARMS
    assert len(template.resources("AWS::CloudWatch::Alarm")) == alarms
    assert len(template.resources("AWS::CloudWatch::Dashboard")) == bill.DASHBOARDS[monitoring]
    published = PUBLISHED_METRICS if template.environment("reconciler")["KIZAMI_STACK"] else 0
    metrics = bill.METRICS[monitoring] + aggregation * bill.AGGREGATION_METRICS[monitoring]
    assert published + len(metrics_of_logs(template)) == metrics


def metrics_of_logs(template: Template) -> set[str]:
    filters = template.resources("AWS::Logs::MetricFilter").values()
    return {f["Properties"]["MetricTransformations"][0]["MetricName"] for f in filters}


@pytest.mark.parametrize("aggregation", [False, True])
def test_as_many_idle_queues_are_polled_as_are_counted(aggregation: bool) -> None:
    template = synthesize(**({"aggregation": "true"} if aggregation else {}))
    polled = len(template.resources("AWS::Lambda::EventSourceMapping"))
    counted = Deployment([5], aggregation=aggregation)
    live = deployment.polls(1 / 5)
    assert counted.receives == pytest.approx(live + (polled - 1) * deployment.polls(0))


def test_memory_is_that_of_the_template() -> None:
    template = synthesize()
    for name in ("sender", "collector", "mock_api"):
        assert template.function(name)["MemorySize"] == deployment.SMALL_GB * 1024
    assert template.function("reconciler")["MemorySize"] == deployment.RECONCILER_GB * 1024


def test_a_bundle_is_collected_with_the_memory_that_is_counted_and_kept_in_the_ledger_as_long(
    tmp_path: Path,
) -> None:
    config = tmp_path / "kizami.toml"
    config.write_text("".join(f'[[targets]]\nname = "m{n}"\nurl = "https://a.example"\n' for n in range(2)))
    template = synthesize(config=str(config))
    assert template.function("collector")["MemorySize"] == deployment.BUNDLE_GB * 1024
    assert KEPT_SECONDS == assumptions.LEDGER_SECONDS
    assert len(template.resources("AWS::Lambda::EventSourceMapping")) == 2  # the backfill queue, as is counted


@pytest.mark.parametrize("targets", [2, 100, 101, 1000, 10_000])
def test_there_are_about_as_many_bundles_as_are_counted(targets: int) -> None:
    made = len(make_bundles(Target(name=f"target-{number}") for number in range(targets)))
    assert sum(Deployment([5] * targets).bundles.values()) == pytest.approx(made, rel=0.05)


def test_the_reconciler_runs_and_looks_back_as_is_counted() -> None:
    template = synthesize()
    told = template.environment("reconciler")
    assert int(told["KIZAMI_RECONCILE_HOURS"]) * 3600 == deployment.LOOK_BACK_SECONDS
    assert deployment.MONTH_MINUTES // int(told["KIZAMI_RECONCILE_MINUTES"]) == deployment.RUNS_OF_RECONCILER


def test_what_is_provisioned_is_what_is_counted() -> None:
    table = synthesize(capacity="autoscaled").by_output("MetricsTableName")
    given = table["ProvisionedThroughput"]
    assert given["WriteCapacityUnits"] == Deployment([5]).write_units
    assert given["ReadCapacityUnits"] == Deployment([5]).read_capacity


def test_reads_for_totals_are_provisioned_as_they_are_counted(tmp_path: Path) -> None:
    config = tmp_path / "kizami.toml"
    tables = (f'[[targets]]\nname = "m{n}"\nurl = "https://a.example"\ninterval = "1s"\n' for n in range(100))
    config.write_text('keep = "90d"\n' + "".join(tables))
    table = synthesize(config=str(config), capacity="provisioned").by_output("MetricsTableName")
    counted = Deployment([1] * 100, keeps=[90] * 100).read_capacity
    assert table["ProvisionedThroughput"]["ReadCapacityUnits"] == counted > Deployment([1] * 100).read_capacity
    assert keeping.SPARE_SECONDS == (assumptions.SPARE_DAYS - 1) * 86_400


def test_production_has_as_many_keys_and_secrets_as_are_counted() -> None:
    template = synthesize(profile="production", aggregation="true")
    assert len(template.resources("AWS::KMS::Key")) == bill.KEYS
    assert len(template.resources("AWS::SecretsManager::Secret")) == 1
    assert len(template.resources("AWS::EC2::NatGateway")) == len(template.resources("AWS::EC2::EIP")) == 1


def test_nat_gateways_and_their_addresses_are_counted_by_zone() -> None:
    one, each = (
        {part.what: part.quantity for part in estimate(Deployment([5], production=True, nat_per_zone=per_zone))}
        for per_zone in (False, True)
    )
    template = synthesize(profile="production", nat_per_zone="true")
    gateways = len(template.resources("AWS::EC2::NatGateway"))
    for what in ("hours of NAT gateways", "hours of their addresses"):
        assert each[what] == gateways * one[what]


def test_production_with_a_configuration_has_no_secret_as_is_counted(tmp_path: Path) -> None:
    config = tmp_path / "kizami.toml"
    config.write_text('[[targets]]\nname = "m"\nurl = "https://a.example"\n')
    template = synthesize(profile="production", config=str(config))
    counted = estimate(Deployment([5], production=True, configured=True))
    assert not template.resources("AWS::SecretsManager::Secret")
    assert not [part for part in counted if "secret" in part.what]


def test_the_alarm_looks_where_the_reconciler_publishes() -> None:
    alarms = synthesize().resources("AWS::CloudWatch::Alarm").values()
    assert PUBLISHED in [alarm["Properties"].get("Namespace") for alarm in alarms]


@cache
def parts(
    targets: int, mock: str | None = None, production: bool = False, capacity: str = "on_demand"
) -> list[Part]:
    return estimate(Deployment([5] * targets, mock=mock, production=production, capacity=capacity))


def row(found: list[Part], digits: int = 2) -> list[str]:
    return [f"${total(found):,.{digits}f}", f"${total_after_free(found):,.{digits}f}"]


def running(targets: int, capacity: str = "on_demand") -> list[Part]:
    return [part for part in parts(targets, capacity=capacity) if not part.apart]


def of(service: str, mock: str | None = None, production: bool = False) -> list[Part]:
    return [part for part in parts(1, mock, production) if part.service == service]


def written_rows() -> dict[str, list[str]]:
    """What the table of docs/operations.md has to say."""
    return {
        "one target": row(running(1)),
        "1,000 targets": row(running(1000), 0),
        "1,000 targets, `capacity=provisioned`": row(running(1000, "provisioned"), 0),
        "100,000 targets": row(running(100_000), 0),
        "100,000 targets, `capacity=provisioned`": row(running(100_000, "provisioned"), 0),
        "the mock API, `mock_api=rest`": row(of("API Gateway", "rest")),
        "the mock API, `mock_api=http`": row(of("API Gateway", "http")),
        "dashboard, metrics and alarms; fewer with `monitoring=minimal`": row(of("Monitoring")),
        "`profile=production`": row(of("Production", None, True)),
    }


def test_the_documents_say_what_the_estimate_says() -> None:
    written = {line[0]: line[1:] for line in table_after("operations.md", "What it costs")}
    assert written == written_rows()
    ours, after = row(running(1))
    assert f"{after} a month after the free tier, {ours} at list price" in read("README.md")
    assert f"{after[1:]} ドル" in read("README.ja.md")


@pytest.mark.parametrize("document", ["README.md", "README.ja.md", *sorted(p.name for p in DOCS.glob("*.md"))])
def test_no_document_names_an_amount_that_the_estimate_does_not(document: str) -> None:
    text = SIMULATED.sub("", read(document) if document.startswith("README") else read(f"docs/{document}"))
    written = set(re.findall(r"\$(\d+(?:,\d+)*(?:\.\d+)?)", text)) | set(re.findall(r"([\d.,]+) ドル", text))
    seeds = parts(1, "rest")
    shown = [amount for part in seeds for amount in (part.dollars, part.dollars_after_free)]
    shown += [total(seeds), total_after_free(seeds), PRICES["secret"].dollars, *growth(Deployment([5] * 1000))]
    kept = [part for part in seeds if not part.apart]
    shown += [deployment.polls(0) * 0.40 / 1e6]  # an idle queue
    shown += [total(kept), total_after_free(kept), *SEED_ESTIMATE.values(), sum(SEED_ESTIMATE.values())]
    rows = {amount.removeprefix("$") for line in written_rows().values() for amount in line}
    assert written <= rows | {f"{amount:.2f}" for amount in shown}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")

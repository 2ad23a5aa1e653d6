"""The bill of a month, part by part: quantities of a deployment times their prices (pure).

The free tier is the one that does not end after a year. What one may do without stands apart: the mock's API
Gateway, CloudWatch's fixed part and what the production profile adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kizami.aws.costs import assumptions as given
from kizami.aws.costs.deployment import MONTH_MINUTES, MONTH_SECONDS, RUNS_OF_RECONCILER, Deployment
from kizami.aws.costs.prices import HOURS, PRICES, Price

# By monitoring: of the template, which tests/infra/test_costs_match.py holds them to.
ALARMS = {"full": 13, "minimal": 8}
METRICS = {"full": 6, "minimal": 0}
DASHBOARDS = {"full": 1, "minimal": 0}
AGGREGATION_ALARMS, AGGREGATION_METRICS = 5, {"full": 2, "minimal": 1}
KEYS, ZONES = 3, 2
SECRET_READS = 30 * 24 * 12  # a month: each is kept for five minutes


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the bill."""

    service: str
    what: str
    quantity: float
    price: Price
    apart: bool = False

    @property
    def dollars(self) -> float:
        return self.quantity * self.price.dollars / self.price.per

    @property
    def dollars_after_free(self) -> float:
        """What remains if nothing else in the account uses up the free tier."""
        return max(0.0, self.quantity - self.price.free) * self.price.dollars / self.price.per


def estimate(deployment: Deployment) -> list[Part]:
    """The bill of a month, what stands apart last."""
    running = [*_lambda(deployment), *_dynamodb(deployment), _sqs(deployment), *_logs(deployment)]
    apart = [*_mock(deployment), *_monitoring(deployment), *_production(deployment)]
    return [part for part in (*running, *_secrets(deployment), *apart) if part.quantity]


def growth(deployment: Deployment) -> tuple[float, float]:
    """By how many gigabytes what is kept for ever grows with each month, and by how many dollars its bill does."""
    gone = sum(MONTH_SECONDS / interval for interval, _ in deployment.kept)
    gigabytes = (deployment.slots - gone) * given.RECORD_BYTES / 1e9
    kept = PRICES["dynamodb_gb"].dollars + PRICES["dynamodb_recovery_gb"].dollars
    return gigabytes, gigabytes * kept


def _lambda(deployment: Deployment) -> list[Part]:
    requests = MONTH_MINUTES + RUNS_OF_RECONCILER + deployment.messages
    seconds = deployment.gigabyte_seconds
    if deployment.mock:
        requests += deployment.slots
        seconds += deployment.mock_gigabyte_seconds
    return [
        Part("Lambda", "requests", requests, PRICES["lambda_request"]),
        Part("Lambda", "GB-seconds", seconds, PRICES["lambda_gb_second"]),
    ]


def _dynamodb(deployment: Deployment) -> list[Part]:
    gigabytes = deployment.kept_gigabytes
    return [
        *_writes(deployment),
        Part("DynamoDB", "writes of the ledger", deployment.ledger_items, PRICES["dynamodb_write"]),
        *_totals(deployment),
        Part("DynamoDB", "GB kept", gigabytes, PRICES["dynamodb_gb"]),
        Part("DynamoDB", "GB restorable to any second", gigabytes, PRICES["dynamodb_recovery_gb"]),
    ]


def _totals(deployment: Deployment) -> list[Part]:
    """What totals take, where the table's units are not provisioned."""
    if deployment.capacity != "on_demand":
        return []
    return [
        Part("DynamoDB", "writes of totals", deployment.totalled_hours, PRICES["dynamodb_write"]),
        Part("DynamoDB", "reads for totals", deployment.totals_reads, PRICES["dynamodb_read"]),
    ]


def _writes(deployment: Deployment) -> list[Part]:
    reads = Part("DynamoDB", "reads of the reconciler", deployment.read_units, PRICES["dynamodb_read"])
    if deployment.capacity == "on_demand":
        return [Part("DynamoDB", "writes", deployment.slots, PRICES["dynamodb_write"]), reads]
    writes_given, reads_given = deployment.write_units * HOURS, deployment.read_capacity * HOURS
    provisioned = [
        Part("DynamoDB", "hours of a write a second", writes_given, PRICES["dynamodb_write_unit_hour"]),
        Part("DynamoDB", "hours of a read a second", reads_given, PRICES["dynamodb_read_unit_hour"]),
    ]
    # One target's reconciler reads the table itself, many targets' the ledger, which is billed on demand.
    return [*provisioned, reads] if deployment.bundled else provisioned


def _sqs(deployment: Deployment) -> Part:
    # A message is received and deleted by itself, and idle polling counts too.
    requests = deployment.sends + deployment.receives + deployment.messages
    return Part("SQS", "requests", requests, PRICES["sqs_request"])


def _logs(deployment: Deployment) -> list[Part]:
    gigabytes = deployment.logged_gigabytes
    if deployment.mock and deployment.log_level != "warn":
        gigabytes += deployment.slots * given.MOCK_LINE / 1e9
    return [
        Part("CloudWatch", "GB of logs", gigabytes, PRICES["logs_gb"]),
        Part("CloudWatch", "GB of logs kept", gigabytes * given.KEPT_OF_LOGS, PRICES["logs_kept_gb"]),
    ]


def _secrets(deployment: Deployment) -> list[Part]:
    reads = deployment.secrets * SECRET_READS
    return [
        Part("Secrets Manager", "secrets", deployment.secrets, PRICES["secret"]),
        Part("Secrets Manager", "reads", reads, PRICES["secret_call"]),
    ]


def _mock(deployment: Deployment) -> list[Part]:
    if deployment.mock is None:
        return []
    price = PRICES[f"{deployment.mock}_request"]
    return [Part("API Gateway", "requests of the mock API", deployment.slots, price, apart=True)]


def _monitoring(deployment: Deployment) -> list[Part]:
    kind, batch = deployment.monitoring, deployment.aggregation
    counts = {
        "metric": METRICS[kind] + batch * AGGREGATION_METRICS[kind],
        "alarm": ALARMS[kind] + batch * AGGREGATION_ALARMS,
        "dashboard": DASHBOARDS[kind],
    }
    return [Part("Monitoring", f"{name}s", count, PRICES[name], apart=True) for name, count in counts.items()]


def _production(deployment: Deployment) -> list[Part]:
    if not deployment.production:
        return []
    gigabytes = deployment.slots * given.REQUEST_BYTES / 1e9
    gateways = ZONES if deployment.nat_per_zone else 1
    return [
        Part("Production", "hours of NAT gateways", HOURS * gateways, PRICES["nat_hour"], apart=True),
        Part("Production", "hours of their addresses", HOURS * gateways, PRICES["address_hour"], apart=True),
        Part("Production", "GB through it", gigabytes, PRICES["nat_gb"], apart=True),
        Part("Production", "customer-managed keys", KEYS, PRICES["key"], apart=True),
        Part("Production", "secrets of the mock API", int(deployment.has_mock), PRICES["secret"], apart=True),
    ]


def total(parts: Iterable[Part]) -> float:
    """Their list price."""
    return sum(part.dollars for part in parts)


def total_after_free(parts: Iterable[Part]) -> float:
    """What remains of it after the free tier."""
    return sum(part.dollars_after_free for part in parts)


def services(parts: Sequence[Part]) -> list[str]:
    """The services of the bill in its order."""
    return list(dict.fromkeys(part.service for part in parts))

"""What a month on AWS costs: how often each part is used, times its list price (pure).

The counts follow from the targets. What cannot be counted is assumed, each once and with its reason:
durations, sizes of lines and rows. The free tier is the one that does not end after a year.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

PRICES_OF = "2026-11"  # US East (N. Virginia), US dollars


@dataclass(frozen=True, slots=True)
class Price:
    """The list price of `per` units, and how many a month are free for ever."""

    dollars: float
    per: float = 1
    free: float = 0


MILLION = 1_000_000
PRICES = {
    "lambda_request": Price(0.20, MILLION, free=MILLION),
    "lambda_gb_second": Price(0.0000133334, free=400_000),  # arm64
    "sqs_request": Price(0.40, MILLION, free=MILLION),
    "dynamodb_write": Price(0.625, MILLION),  # on demand
    "dynamodb_read": Price(0.125, MILLION),
    "dynamodb_gb": Price(0.25, free=25),
    "dynamodb_recovery_gb": Price(0.20),
    "api_gateway_request": Price(3.50, MILLION),  # REST
    "logs_gb": Price(0.50, free=5),
    "metric": Price(0.30, free=10),
    "alarm": Price(0.10, free=10),
    "dashboard": Price(3.00, free=3),
    "nat_hour": Price(0.045),
    "key": Price(1.00),
    "secret": Price(0.40),
}

# The seeds' own estimate of their one target, dollars a month; their total, 2.10, is what these add up to.
SEED_ESTIMATE = {"Lambda": 0.50, "DynamoDB": 1.00, "SQS": 0.10, "API Gateway": 0.50}

MONTH_SECONDS = 30 * 86_400
MONTH_MINUTES = MONTH_SECONDS // 60
RUNS_OF_RECONCILER = MONTH_MINUTES // 5
LOOK_BACK_SECONDS = 3 * 3600

SMALL_GB, RECONCILER_GB = 0.125, 0.25
COLLECTOR_SECONDS = 0.25  # the call of the API and the write, on a fourteenth of a CPU
MOCK_SECONDS = 0.05
SENDER_SECONDS = 0.3
SENDER_GB_SECONDS_A_TARGET = 0.0013 * 1.73  # bench/functions_at_scale.py: 1.3 ms of a whole CPU
RECONCILER_SECONDS, RECONCILER_SECONDS_A_TARGET = 0.5, 0.02
# Five pollers ask an idle queue every 20 seconds; there are three queues. The aggregation's runs are not counted:
# how many companies and users there are is not in the configuration.
POLLS = 3 * 5 * MONTH_SECONDS // 20
MESSAGES_A_BATCH = 10
COLLECTOR_LOG_BYTES, MOCK_LOG_BYTES = 1600, 1200  # our lines and those of Lambda itself
SENDER_LOG_BYTES_A_MESSAGE, LOGGED_ONE_BY_ONE = 250, 120
RUN_LOG_BYTES = 2000
ROW_BYTES, ROW_BYTES_KEPT = 100, 200  # DynamoDB adds a hundred to each
READ_BYTES = 4096
ALARMS, METRICS, DASHBOARDS = 10, 5, 1
KEYS, SECRETS = 3, 1


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the bill."""

    service: str
    what: str
    quantity: float
    price: Price

    @property
    def dollars(self) -> float:
        return self.quantity * self.price.dollars / self.price.per

    @property
    def dollars_after_free(self) -> float:
        """What remains if nothing else in the account uses up the free tier."""
        return max(0.0, self.quantity - self.price.free) * self.price.dollars / self.price.per


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is deployed: the targets' intervals in seconds, and the settings that move the bill."""

    intervals: Sequence[int]
    with_mock: bool = False
    production: bool = False
    batch_size: int = 1
    warnings_only: bool = False

    @property
    def slots(self) -> int:
        """How many a month."""
        return sum(MONTH_SECONDS // interval for interval in self.intervals)

    @property
    def messages_a_minute(self) -> int:
        return sum(60 // interval for interval in self.intervals)

    @property
    def invocations(self) -> float:
        """Of the Collector. Messages share one when they are due together, as those of different targets are."""
        return self.slots / min(self.batch_size, len(self.intervals))


def estimate(deployment: Deployment) -> list[Part]:
    """The bill of a month."""
    parts = [*_lambda(deployment), *_dynamodb(deployment), _sqs(deployment)]
    if deployment.with_mock:
        requests = PRICES["api_gateway_request"]
        parts.append(Part("API Gateway", "requests of the mock API", deployment.slots, requests))
    return [*parts, *_cloudwatch(deployment), *(_production() if deployment.production else ())]


def _lambda(deployment: Deployment) -> list[Part]:
    targets, mock_calls = len(deployment.intervals), deployment.slots * deployment.with_mock
    requests = MONTH_MINUTES + RUNS_OF_RECONCILER + deployment.invocations + mock_calls
    sender = max(SENDER_SECONDS * SMALL_GB, targets * SENDER_GB_SECONDS_A_TARGET)
    run = (RECONCILER_SECONDS + RECONCILER_SECONDS_A_TARGET * targets) * RECONCILER_GB
    collecting = (deployment.invocations * COLLECTOR_SECONDS + mock_calls * MOCK_SECONDS) * SMALL_GB
    gb_seconds = MONTH_MINUTES * sender + RUNS_OF_RECONCILER * run + collecting
    return [
        Part("Lambda", "requests", requests, PRICES["lambda_request"]),
        Part("Lambda", "GB-seconds", gb_seconds, PRICES["lambda_gb_second"]),
    ]


def _dynamodb(deployment: Deployment) -> list[Part]:
    # A run counts the rows of the look-back with consistent reads, one a 4 KB.
    rows = [LOOK_BACK_SECONDS // interval for interval in deployment.intervals]
    reads = sum(ceil(count * ROW_BYTES / READ_BYTES) for count in rows)
    gigabytes = deployment.slots * ROW_BYTES_KEPT / 1e9
    return [
        Part("DynamoDB", "writes", deployment.slots, PRICES["dynamodb_write"]),
        Part("DynamoDB", "reads of the reconciler", RUNS_OF_RECONCILER * reads, PRICES["dynamodb_read"]),
        Part("DynamoDB", "GB kept, each month's rows", gigabytes, PRICES["dynamodb_gb"]),
        Part("DynamoDB", "GB restorable to any second", gigabytes, PRICES["dynamodb_recovery_gb"]),
    ]


def _sqs(deployment: Deployment) -> Part:
    sends = MONTH_MINUTES * ceil(deployment.messages_a_minute / MESSAGES_A_BATCH)
    # An invocation's messages are received and deleted together, and idle polling counts too.
    return Part("SQS", "requests", sends + 2 * deployment.invocations + POLLS, PRICES["sqs_request"])


def _cloudwatch(deployment: Deployment) -> list[Part]:
    return [
        Part("CloudWatch", "GB of logs", _logged_bytes(deployment) / 1e9, PRICES["logs_gb"]),
        Part("CloudWatch", "metrics", METRICS, PRICES["metric"]),
        Part("CloudWatch", "alarms", ALARMS, PRICES["alarm"]),
        Part("CloudWatch", "dashboards", DASHBOARDS, PRICES["dashboard"]),
    ]


def _production() -> list[Part]:
    return [
        Part("Production", "hours of the NAT gateway", MONTH_SECONDS // 3600, PRICES["nat_hour"]),
        Part("Production", "customer-managed keys", KEYS, PRICES["key"]),
        Part("Production", "secrets", SECRETS, PRICES["secret"]),
    ]


def _logged_bytes(deployment: Deployment) -> float:
    runs = RUNS_OF_RECONCILER * RUN_LOG_BYTES
    if deployment.warnings_only:
        return runs
    messages = deployment.messages_a_minute
    lines = messages * SENDER_LOG_BYTES_A_MESSAGE if messages <= LOGGED_ONE_BY_ONE else 0
    collected = COLLECTOR_LOG_BYTES + MOCK_LOG_BYTES * deployment.with_mock
    return runs + MONTH_MINUTES * (lines + RUN_LOG_BYTES) + deployment.slots * collected


def services(parts: Iterable[Part]) -> list[str]:
    """The services of the bill in its order."""
    return list(dict.fromkeys(part.service for part in parts))

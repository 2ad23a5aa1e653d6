"""What AWS asks for a unit of each thing: US East (N. Virginia), US dollars, each with the month it is of."""

from __future__ import annotations

from dataclasses import dataclass

PRICES_OF = "2026-11"


@dataclass(frozen=True, slots=True)
class Price:
    """The list price of `per` units, how many a month are free for ever, and when that was read."""

    dollars: float
    per: float = 1
    free: float = 0
    of: str = PRICES_OF


HOURS = 720  # of a month of thirty days
MILLION = 1_000_000
PRICES = {
    "lambda_request": Price(0.20, MILLION, free=MILLION),
    "lambda_gb_second": Price(0.0000133334, free=400_000),  # arm64
    "sqs_request": Price(0.40, MILLION, free=MILLION),
    "dynamodb_write": Price(0.625, MILLION),  # on demand
    "dynamodb_read": Price(0.125, MILLION),
    "dynamodb_write_unit_hour": Price(0.00065, free=25 * HOURS),  # provisioned
    "dynamodb_read_unit_hour": Price(0.00013, free=25 * HOURS),
    "dynamodb_gb": Price(0.25, free=25),
    "dynamodb_recovery_gb": Price(0.20),
    "rest_request": Price(3.50, MILLION),
    "http_request": Price(1.00, MILLION),
    "logs_gb": Price(0.50, free=5),
    "logs_kept_gb": Price(0.03, free=5),
    "metric": Price(0.30, free=10),
    "alarm": Price(0.10, free=10),
    "dashboard": Price(3.00, free=3),
    "nat_hour": Price(0.045),
    "nat_gb": Price(0.045),
    "address_hour": Price(0.005),
    "key": Price(1.00),
    "secret": Price(0.40),
    "secret_call": Price(0.05, 10_000),
}

# The seeds' own estimate of their one target, dollars a month; their total, 2.10, is what these add up to.
SEED_ESTIMATE = {"Lambda": 0.50, "DynamoDB": 1.00, "SQS": 0.10, "API Gateway": 0.50}

"""What the bill on AWS rests on: list prices and figures, each once, with its unit and where it comes from (pure).

A figure is a number and can be used as it is. Estimated ones are assumptions that no account has confirmed; those
of the design of packed ticks were measured on DynamoDB Local or computed there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Self

PRICES_OF = "2026-11"
_LIST = f"list price, US East (N. Virginia), {PRICES_OF}"


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """What `per` units cost in US dollars, and how many units a month are free for ever."""

    unit: str
    dollars: float
    per: float = 1
    free: float = 0
    source: str = _LIST


class CostFigure(float):
    """A number with its unit and its source."""

    unit: str
    source: str

    def __new__(cls, value: float, unit: str, source: str) -> Self:
        figure = super().__new__(cls, value)
        figure.unit, figure.source = unit, source
        return figure


HOURS = 720  # of a month of thirty days
MILLION = 1_000_000
PRICES = {
    "lambda_request": UnitPrice("request", 0.20, MILLION, free=MILLION),
    "lambda_gb_second": UnitPrice("GB-second, arm64", 0.0000133334, free=400_000),
    "sqs_request": UnitPrice("request", 0.40, MILLION, free=MILLION),
    "dynamodb_write": UnitPrice("write unit, on demand", 0.625, MILLION),
    "dynamodb_read": UnitPrice("read unit, on demand", 0.125, MILLION),
    "dynamodb_write_unit_hour": UnitPrice("hour of a write a second", 0.00065, free=25 * HOURS),
    "dynamodb_read_unit_hour": UnitPrice("hour of a read a second", 0.00013, free=25 * HOURS),
    "dynamodb_gb": UnitPrice("GB and month", 0.25, free=25),
    "dynamodb_recovery_gb": UnitPrice("GB and month", 0.20),
    "rest_request": UnitPrice("request", 3.50, MILLION),
    "http_request": UnitPrice("request", 1.00, MILLION),
    "logs_gb": UnitPrice("GB", 0.50, free=5),
    "logs_kept_gb": UnitPrice("GB and month", 0.03, free=5),
    "metric": UnitPrice("metric", 0.30, free=10),
    "alarm": UnitPrice("alarm", 0.10, free=10),
    "dashboard": UnitPrice("dashboard", 3.00, free=3),
    "nat_hour": UnitPrice("hour", 0.045),
    "nat_gb": UnitPrice("GB", 0.045),
    "address_hour": UnitPrice("hour", 0.005),
    "key": UnitPrice("key", 1.00),
    "secret": UnitPrice("secret", 0.40),
    "secret_call": UnitPrice("call", 0.05, 10_000),
    "out_gb_1": UnitPrice("GB", 0.09),
    "out_gb_2": UnitPrice("GB", 0.085),
    "out_gb_3": UnitPrice("GB", 0.07),
    "out_gb_4": UnitPrice("GB", 0.05),
}
OUT_TIERS = (10_240, 40_960, 102_400, float("inf"))  # GB a month at each of the prices of data out
# The seeds' own estimate of their one target, dollars a month; their total, 2.10, is what these add up to.
SEED_ESTIMATE = {"Lambda": 0.50, "DynamoDB": 1.00, "SQS": 0.10, "API Gateway": 0.50}


class Section(Enum):
    """Where a line of a bill is added up."""

    POLLING = "polling"
    APART = "apart"  # what one may do without
    OUTSIDE = "outside"  # data transfer out


@dataclass(frozen=True, slots=True)
class CostLine:
    """One line of a bill."""

    service: str
    what: str
    quantity: float
    price_name: str
    section: Section = Section.POLLING

    @property
    def dollars(self) -> float:
        """The list price."""
        price = PRICES[self.price_name]
        return self.quantity * price.dollars / price.per


# Lambda. CPU in seconds of a whole one.
WHOLE_CPU_GB = CostFigure(1769 / 1024, "GB", "AWS: with it a function has a whole CPU, with less a share")
SMALL_GB = CostFigure(0.125, "GB", "template: Sender, mock API, Collector of one target")
BUNDLE_GB = CostFigure(0.25, "GB", "template: Collector of several targets, reconciler at least")
COLD_STARTS = CostFigure(1.02, "times", "estimated: functions called every few seconds start rarely")
CALL_SECONDS = CostFigure(0.01, "s a call", "estimated: SQS or DynamoDB in the same region")
CALLS_AT_ONCE = CostFigure(16, "calls", "measured: the Sender of 1,422 bundles waits 0.9 s, docs/decisions.md")
SENDER_CPU = CostFigure(0.0019, "s a run", "measured: make bench-lambda, docs/decisions.md")
SENDER_MESSAGE_CPU = CostFigure(0.00005, "s a message", "measured: docs/decisions.md, 0.8 s for 17,064 messages")
ROW_CPU = CostFigure(0.0011, "s a slot", "measured: make bench-lambda, docs/decisions.md")
MOCK_CPU = CostFigure(0.0005, "s a request", "measured: make bench-lambda")
ONE_CPU = CostFigure(0.0018, "s a slot", "measured: a delivery of one configured target, 1.7 ms")
BUNDLE_CPU = CostFigure(0.0025, "s a delivery", "measured: deliveries of 2 to 100 targets take 2.1 to 17 ms")
SLOT_CPU = CostFigure(0.0002, "s a request", "measured 0.15 ms, the same; the rest, for TLS, is estimated")
VALUE_CPU = CostFigure(0.00001, "s a value", "estimated: each value of an answer after the first")
RETRY_CPU = CostFigure(0.01, "s a delivery", "design, estimated: it reads ticks and states, too")
HANDSHAKE_CPU = CostFigure(
    0.00045, "s", "measured: asyncio, OpenSSL 3.0, RSA or EC; less a request on a kept connection"
)
RUN_CPU = CostFigure(0.02, "s a run", "measured: reconciler of 1,000 targets, docs/decisions.md")
RUN_BUNDLE_CPU = CostFigure(0.0012, "s a bundle and run", "design, estimated: a Query and a mark")
SEAL_CPU = CostFigure(0.06, "s a span of a bundle", "design, estimated")
SEAL_SLOT_CPU = CostFigure(0.0000055, "s a value", "design; measured 4.1 µs to read, merge, pack and compare")
SEAL_CALL_CPU = CostFigure(0.001, "s a call", "design, estimated: a batch of 25 statements")

# Requests to the polled APIs
ANSWER_SECONDS = CostFigure(0.1, "s", "estimated: the slowest of a hundred takes three times as long")
SLOW_ANSWERS = CostFigure(
    0.001, "of answers", "estimated: after the first write, so 10% of the ticks of 100 targets"
)
SLOW_SECONDS = CostFigure(
    1.5, "s", "estimated: a delivery with a slow answer, between the first write and its end"
)
FAILED_ONCE = CostFigure(0.0001, "of requests", "estimated: so 1% of the ticks of 100 targets")
RECOVERED = CostFigure(0.001, "of ticks", "estimated: found missing by the reconciler")
IDLE_SECONDS = CostFigure(60, "s", "estimated: for which hosts that keep connections keep an idle one")
MOST_KEPT = CostFigure(800, "connections", "kizami.aws.client.loop_client: of one environment")
KEPT_OUT_BYTES = CostFigure(450, "B a request", "design, estimated: sent on a kept connection")
FRESH_OUT_BYTES = CostFigure(1400, "B a request", "design, estimated: sent with a handshake")
KEPT_NAT_BYTES = CostFigure(1500, "B a request", "estimated: sent and received on a kept connection")
FRESH_NAT_BYTES = CostFigure(7000, "B a request", "estimated: the same with certificates")
FLOW_RECORDS = CostFigure(4, "records", "estimated: of a connection, at two interfaces in two directions")
FLOW_BYTES = CostFigure(120, "B a record", "estimated")
FLOW_SECONDS = CostFigure(600, "s", "AWS: after which an open connection has records again")
REJECTED_FLOWS = CostFigure(
    43_200, "records a month", "estimated: one a minute where only rejected flows are logged"
)

# SQS, CloudWatch, Secrets Manager
POLLERS = CostFigure(5, "long polls", "AWS: at a queue")
POLL_SECONDS = CostFigure(20, "s", "AWS: the longest wait of a long poll")
SENDER_LINE = CostFigure(260, "B", "estimated: with the 26 that CloudWatch adds to a line")
ROW_LINE = CostFigure(500, "B", "estimated")
BUNDLE_LINE = CostFigure(480, "B", "estimated")
FAILED_LINE = CostFigure(450, "B", "estimated: about the members of a delivery that failed")
RUN_LINE = CostFigure(620, "B", "estimated")
MOCK_LINE = CostFigure(330, "B", "estimated")
KEPT_OF_LOGS = CostFigure(0.15, "of bytes", "estimated: logs are kept compressed")
SECRET_SECONDS = CostFigure(300, "s", "kizami.aws.client.secrets: for which an environment keeps a secret")

# DynamoDB
ITEM_OVERHEAD = CostFigure(100, "B an item", "AWS: billed in addition to what is stored")
ROW_BYTES = CostFigure(90, "B an item", "design")
TICK_BYTES = CostFigure(80, "B an item", "computed: keys, names, head and bitmap of a tick")
TIME_BYTES = CostFigure(2, "B a target", "computed: the time of an answer more than 0.64 s after its tick")
LATE_BYTES = CostFigure(12, "B a target", "computed: a later answer beside its values")
SEALED_SLOT_BYTES = CostFigure(
    1.55, "B a value", "measured: times with up to 1 s of lateness, kizami.core.merging"
)
DIGIT_BYTES = CostFigure(0.41, "B a digit", "measured: random digits, kizami.core.sealed_spans")
SPAN_BYTES = CostFigure(75, "B an item", "computed: keys and names of a sealed span, metric of 20 letters")
DAY_BYTES = CostFigure(60, "B an item", "computed: keys and names of day totals")
HOUR_BYTES = CostFigure(20, "B an hour", "computed: figures of an hour, values of four digits")
SUMMARY_BYTES = CostFigure(120, "B an item", "computed: keys, names and bounds of a summary")
SUMMARY_SLOT_BYTES = CostFigure(1.3, "B a slot", "measured: lateness of up to 1 s, kizami.core.summaries")
MARK_BYTES = CostFigure(400, "B an item", "design")
STATE_BYTES = CostFigure(300, "B an item", "design: the state of a target that is not well")
SPARE_DAYS = CostFigure(4, "days", "AWS and design: from the end of keep until a sealed span is gone")

FIGURES = {name: value for name, value in globals().items() if isinstance(value, CostFigure)}

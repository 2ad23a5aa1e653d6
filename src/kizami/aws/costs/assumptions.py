"""What the bill rests on and cannot be counted: times, sizes, and how AWS polls; each once, with its reason.

CPU is measured (docs/decisions.md says how); what is waited for is assumed, and said to be.
"""

from __future__ import annotations

WHOLE_CPU_GB = 1769 / 1024  # of memory: a function gets a CPU with it, and with less a share of one

# Seconds that are waited, which are billed as those that are computed.
API_SECONDS = 0.1  # assumed: an answer of the polled API
SLOWEST_OF_BUNDLE_SECONDS = 0.3  # assumed: the slowest of a hundred
AWS_CALL_SECONDS = 0.01  # assumed: SQS or DynamoDB, in the same region

# Seconds of a whole CPU.
COLLECTOR_CPU = 0.0011  # an invocation of one message: make bench-lambda
MOCK_CPU = 0.0005
SENDER_CPU = 0.0019
BUNDLE_CPU, BUNDLE_CPU_A_SLOT = 0.004, 0.0003  # bench/at_scale/functions.py
SENDER_CPU_A_MESSAGE = 0.00005
RECONCILER_CPU, RECONCILER_CPU_A_BUNDLE = 0.02, 0.0004
COLD_STARTS = 1.02  # what Lambda bills for starting: few, for a function that is called every few seconds

# Lambda keeps five long polls at a queue, each of up to twenty seconds.
POLLERS, LONG_POLL_SECONDS = 5, 20

# Bytes of log lines, with the 26 that CloudWatch adds to each.
SENDER_LINE, COLLECTOR_LINE, BUNDLE_LINE, MOCK_LINE, RECONCILER_LINE = 260, 500, 480, 330, 620
KEPT_OF_LOGS = 0.15  # logs are kept compressed

# An hour of a metric becomes its totals: 720 records (1.2 ms) and four calls; 16 metrics at once.
TOTALS_CPU, TOTALS_WAIT_SECONDS = 0.0035, 0.04 / 16
TOTALS_BYTES = 290
SPARE_DAYS = 4  # until records that are kept no more are gone: three days, and DynamoDB's time

# Bytes of an item, with the hundred that DynamoDB adds to each.
RECORD_BYTES, LEDGER_BYTES = 190, 220
LEDGER_SECONDS = 2 * 86_400  # how long an item of the ledger stays
READ_BYTES = 4096

REQUEST_BYTES = 1500  # of one slot through a NAT gateway: the request, its answer, and the writes' share

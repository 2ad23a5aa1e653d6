"""A stack of a thousand targets for a page to look at: DynamoDB's tables as formulas of the time, and moto's SQS.

    python -m bench.page.aws 1000 26      # prints its address, and serves until it is ended

A day of a thousand targets is 17 million records and 280,000 ticks, which no emulator holds, or counts as quickly
as AWS. So nothing is kept here: what a page asks for is made as it is asked for, in the pages of DynamoDB and with
the time that a request to it takes. A GET tells how much was asked for since the last one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from bench.page.backend import INTERVAL, count_of, is_troubled, target_names
from kizami.aws.store.tick_ledger import IS_SHORT, IS_WHOLE
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import format_instant, parse_instant
from kizami.core.targets.bundles import make_bundles
from kizami.core.targets.target import Target

PAGE_BYTES = 1_000_000
TICK_BYTES, PLACE_BYTES, RECORD_BYTES = 90, 3, 120  # as DynamoDB counts an item
LATENCY_SECONDS = 0.008
LEDGER, TABLE = "Ticks", "AiResponseMetrics"
HOUR = 3600

Fields = dict[str, Any]


class Formulas:
    """What the tables of a stack hold at this moment.

    A third of the targets fails since three hours, a tenth for a minute in ten.
    """

    def __init__(self, count: int, hours: float) -> None:
        names = target_names(count)
        self._names = set(names)
        bundles = make_bundles([Target(name=name, lag_seconds=INTERVAL) for name in names])
        self._members = {bundle.name: bundle.members for bundle in bundles}
        self._trouble = int(time.time()) - 3 * HOUR
        self._start = (int(time.time()) - int(hours * HOUR)) // HOUR * HOUR
        self._lacking: dict[tuple[str, bool, bool], tuple[int, str]] = {}

    def answer(self, operation: str, request: Fields) -> str:
        """What DynamoDB answers, as JSON."""
        if operation == "BatchGetItem":
            (keys,) = (asked["Keys"] for asked in request["RequestItems"].values())
            found = (self._record(key["metricName"]["S"], _second(key["slotTime"]["S"])) for key in keys)
            return f'{{"Responses": {{"{TABLE}": [{", ".join(filter(None, found))}]}}, "UnprocessedKeys": {{}}}}'
        values = {name: value["S"] for name, value in request.get("ExpressionAttributeValues", {}).items()}
        if ":bundle" in values and values[":bundle"] in self._members:
            return self._query_ticks(request, values, values[":bundle"])
        if values.get(":metric") in self._names:
            return self._query_records(request, values, values[":metric"])
        return _page(request, [], 0)

    def _query_ticks(self, request: Fields, values: Fields, bundle: str) -> str:
        filtered, limit = request.get("FilterExpression"), request.get("Limit", inf)
        items, scanned, size = list[str](), 0, 0
        for slot in self._asked(request, values):
            lacked, lacking = self._lacked(bundle, slot)
            if filtered != (IS_WHOLE if lacked else IS_SHORT):
                items.append(f'{{"tick": {{"S": "{_text(slot)}"}}{lacking}}}')
            scanned += 1
            size += TICK_BYTES + PLACE_BYTES * lacked
            if size >= PAGE_BYTES or scanned == limit:
                return _page(request, items, scanned, slot)
        return _page(request, items, scanned)

    def _query_records(self, request: Fields, values: Fields, name: str) -> str:
        items, limit = list[str](), min(request.get("Limit", inf), PAGE_BYTES // RECORD_BYTES)
        for slot in self._asked(request, values):
            if item := self._record(name, slot):
                items.append(item)
                if len(items) == limit:
                    return _page(request, items, len(items), slot)
        return _page(request, items, len(items))

    def _asked(self, request: Fields, values: Fields) -> Sequence[int]:
        end = (int(time.time()) - 2 * INTERVAL) // INTERVAL * INTERVAL
        first = max(self._start, _second(values[":first"])) if ":first" in values else self._start
        last = min(end, _second(values[":last"]) + 1) if ":last" in values else end
        if "ExclusiveStartKey" in request:
            first = int(request["ExclusiveStartKey"]["at"]["N"]) + INTERVAL
        slots = range(-(-first // INTERVAL) * INTERVAL, last, INTERVAL)
        return slots if request.get("ScanIndexForward", True) else slots[::-1]

    def _fails(self, name: str, is_late: bool, is_minute: bool) -> bool:
        return (is_late and is_troubled(name)) or (is_minute and name.endswith("3"))

    def _lacked(self, bundle: str, slot: int) -> tuple[int, str]:
        """How many members a tick lacks, and its attribute that tells whom."""
        key = bundle, slot > self._trouble, slot % 600 < 60
        if key not in self._lacking:
            members = enumerate(self._members[bundle])
            places = [str(place) for place, name in members if self._fails(name, *key[1:])]
            attribute = f', "lacking": {json.dumps({"NS": places})}' if places else ""
            self._lacking[key] = len(places), attribute
        return self._lacking[key]

    def _record(self, name: str, slot: int) -> str | None:
        if name not in self._names or self._fails(name, slot > self._trouble, slot % 600 < 60):
            return None
        times = f'"slotTime": {{"S": "{_text(slot)}"}}, "collectedAt": {{"S": "{_text(slot + INTERVAL)}"}}'
        count = count_of(slot, int(name[-5:]))
        return f'{{"metricName": {{"S": "{name}"}}, {times}, "count": {{"N": "{count}"}}}}'


def _page(request: Fields, items: Sequence[str], scanned: int, last: int | None = None) -> str:
    """The answer to a query, which goes on behind the slot `last` if that is told."""
    sent = "" if "Select" in request else f', "Items": [{", ".join(items)}]'
    more = f', "LastEvaluatedKey": {{"at": {{"N": "{last}"}}}}' if last is not None else ""
    return f'{{"Count": {len(items)}, "ScannedCount": {scanned}{sent}{more}}}'


@lru_cache(maxsize=100_000)
def _text(slot: int) -> str:
    return format_instant(from_seconds(slot))


def _second(text: str) -> int:
    return to_seconds(parse_instant(text, "slot"))


class Handler(BaseHTTPRequestHandler):
    """DynamoDB, as far as a page asks for it."""

    protocol_version = "HTTP/1.1"
    formulas: Formulas
    traffic: ClassVar = [0, 0]
    guard = Lock()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(LATENCY_SECONDS)
        body = self.formulas.answer(self.headers["X-Amz-Target"].rpartition(".")[2], request).encode()
        with self.guard:
            self.traffic[0] += 1
            self.traffic[1] += len(body)
        self._send(body)

    def do_GET(self) -> None:
        with self.guard:
            body, self.traffic[:] = json.dumps(self.traffic).encode(), [0, 0]
        self._send(body)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Where it is, and what was asked of its tables."""

    address: str
    environment: dict[str, str]

    def asked(self) -> tuple[int, int]:
        """The requests and the bytes of their answers since this was last asked."""
        with urllib.request.urlopen(self.address) as answer:
            requests, answered = json.load(answer)
        return requests, answered


@contextmanager
def deployed(count: int, hours: float, folder: Path) -> Iterator[Stack]:
    """A stack of so many targets that runs since so many hours; its configuration is in the folder."""
    from aws_here.local_aws import clean_environment, create_queue, environment, moto_server

    entries = (f'[[targets]]\nname = "{name}"\nurl = "https://api.example.com"\n' for name in target_names(count))
    (folder / "kizami.toml").write_text("".join(entries))
    command = [sys.executable, "-m", "bench.page.aws", str(count), str(hours)]
    with moto_server() as queues_at, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tables:
        assert tables.stdout
        address = tables.stdout.readline().strip()
        queues = {name: create_queue(queues_at) for name in ("QUEUE_URL", "KIZAMI_BACKFILL_QUEUE_URL")}
        places = {
            "AWS_ENDPOINT_URL_DYNAMODB": address,
            "AI_METRICS_TABLE_NAME": TABLE,
            "KIZAMI_LEDGER_TABLE_NAME": LEDGER,
            "KIZAMI_DEAD_LETTER_QUEUE_URL": create_queue(queues_at),
            "COMPANY_TABLE_NAME": "Company",
            "POINTS_TABLE_NAME": "Points",
        }
        try:
            yield Stack(address, {**clean_environment(), **environment(queues_at), **queues, **places})
        finally:
            tables.terminate()


def main() -> None:
    Handler.formulas = Formulas(int(sys.argv[1]), float(sys.argv[2]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print("http://{}:{}".format(*server.server_address), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

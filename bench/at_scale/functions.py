"""What many targets cost the Sender, the Collector and the reconciler: CPU and wall time, within their deadlines.

    python -m bench.at_scale.functions [targets …]

AWS answers in 10 ms here, in a process of its own. CPU time is what counts: a Lambda function has one vCPU at
1,769 MB and a share of it below. Each function has the time that the stack gives it, so that one that takes too
long fails here as it would there. The reconciler meets a ledger that is complete, then one that lacks the same
minute of every bundle, then one in which nobody has answered for an hour: one incident, in the runs that see it
first, tell it, and go on. The Collector has the largest bundle; the API of its targets is on the loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from kizami.cdk.parts.configuration import bundle_files
from kizami.core.config import parse_config
from kizami.core.slots import floor_to_slot, format_instant, parse_instant, slots_between
from kizami.core.targets.bundles import make_bundles

ANSWER_SECONDS = 0.01
HOLE_AGE = timedelta(minutes=90)
OUTAGE = timedelta(hours=1)
COMPLETE, HOLES, DOWN = "complete", "a minute is missing", "nobody answers"
TOPIC = "arn:aws:sns:us-east-1:000000000000:alarms"
SENDER_SECONDS, COLLECTOR_SECONDS, RECONCILER_SECONDS = 10, 30, 120
ROUNDS = 50
PAGE_SECONDS, MOST_ON_A_PAGE = 3, 10_000

# What is to be reached, in seconds of CPU.
SENDER_REACH, COMPLETE_REACH = 3.0, 5.0


KEPT: dict[str, dict[str, Any]] = {}  # incidents and their state, which runs read again


def answer(operation: str, request: dict[str, Any], state: str) -> dict[str, Any]:
    """SQS and DynamoDB as far as these functions need them."""
    if request.get("Key", request.get("Item", {})).get("metricName") == {"S": "#alerts"}:
        return keep(operation, request)
    if operation == "SendMessageBatch":
        return {"Successful": [{"Id": entry["Id"], "MessageId": "m"} for entry in request["Entries"]]}
    if operation == "GetQueueAttributes":
        return {"Attributes": {"ApproximateNumberOfMessages": "0"}}
    if operation == "BatchExecuteStatement":
        return {"Responses": [{"TableName": "t"} for _ in request["Statements"]]}
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        return {}
    if operation == "BatchGetItem":
        tables = request["RequestItems"].items()
        return {"Responses": {table: [*map(record, wanted["Keys"])] for table, wanted in tables}}
    return query(request, state)


def keep(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """What alerts write: whole items, new fields of one, or that it goes."""
    key = request.get("Key", request.get("Item", {}))["slotTime"]["S"]
    if operation == "DeleteItem":
        KEPT.pop(key, None)
    elif operation == "PutItem":
        KEPT[key] = request["Item"]
    else:
        names, values = request["ExpressionAttributeNames"], request.get("ExpressionAttributeValues", {})
        fields = {name: values.get(f":{place[1:]}") for place, name in names.items()}
        whole = {**KEPT.get(key, {}), **request["Key"], **fields}
        KEPT[key] = {name: value for name, value in whole.items() if value is not None}  # no value: REMOVE
    return {}


def kept_items(values: dict[str, str]) -> list[dict[str, Any]]:
    first, last = values.get(":first", ""), values.get(":last", "~")
    if ":key" in values:
        first = last = values[":key"]
    prefix = values.get(":outbox", values.get(":prefix", ""))
    return [item for key, item in sorted(KEPT.items()) if first <= key <= last and key.startswith(prefix)]


def query(request: dict[str, Any], state: str) -> dict[str, Any]:
    """The ledger, as if it had been kept for a day; nobody is blocked."""
    values = {name: value["S"] for name, value in request["ExpressionAttributeValues"].items()}
    if ":metric" in values:
        return records(request, values)
    if ":bundle" not in values:
        items = kept_items(values) if values[":partition"] == "#alerts" else []
        return {"Count": len(items), "Items": items}
    slots = noted_slots(values, state)
    if "Select" in request:
        return {"Count": len(slots)}
    noted = [] if "FilterExpression" in request else slots  # nobody is lacked where a tick is noted
    items = [{"bundle": {"S": values[":bundle"]}, "tick": {"S": format_instant(slot)}} for slot in noted]
    return {"Count": len(items), "ScannedCount": len(slots), "Items": items[: request.get("Limit")]}


def records(request: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """A target's records of the last day, as a page asks for a few of them."""
    end = floor_to_slot(datetime.now(UTC)) - timedelta(seconds=10)
    first = parse_instant(values[":first"]) if ":first" in values else end - timedelta(days=1)
    last = min(parse_instant(values[":last"]), end) if ":last" in values else end
    if request.get("Limit") == 1:
        first = last = last if request.get("ScanIndexForward") is False else first
    metric = {"S": values[":metric"]}
    rows = [
        record({"metricName": metric, "slotTime": {"S": format_instant(slot)}})
        for slot in slots_between(floor_to_slot(first), last + timedelta(seconds=1), 5)
    ]
    return {"Count": len(rows), "Items": rows}


def record(key: dict[str, Any]) -> dict[str, Any]:
    return {**key, "count": {"N": "7"}, "collectedAt": key["slotTime"]}


def noted_slots(values: dict[str, str], state: str) -> list[datetime]:
    now = datetime.now(UTC)
    kept_since = floor_to_slot(now - timedelta(hours=25))
    first = parse_instant(values[":first"]) if ":first" in values else kept_since
    last = parse_instant(values[":last"]) if ":last" in values else now if ":first" in values else first
    last = min(last, now - OUTAGE) if state == DOWN else last
    hole = floor_to_slot(now - HOLE_AGE, 60) if state == HOLES else None
    if values.get(":checked") and ":first" not in values:
        last = first + timedelta(minutes=2)  # a few at an edge are all that is asked for
    slots = slots_between(floor_to_slot(first), min(last, now) + timedelta(seconds=1), 5)
    return [slot for slot in slots if hole is None or floor_to_slot(slot, 60) != hole]


def header(head: str, pattern: str) -> str | None:
    """What the pattern's group finds in a request's head."""
    found = re.search(pattern, head, re.IGNORECASE)
    return found[1] if found else None


async def serve(state: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                body = json.dumps(await reply(head, reader, state)).encode()
                await asyncio.sleep(ANSWER_SECONDS)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def reply(head: str, reader: asyncio.StreamReader, state: str) -> dict[str, Any]:
    """As AWS, or as the polled API."""
    operation = header(head, r"x-amz-target: \S+\.(\w+)")
    if operation is None and head.startswith("POST"):
        await reader.readexactly(int(header(head, r"content-length: (\d+)") or 0))
        return {}  # topic and webhook take whatever they are given
    if operation is None:
        asked = parse_qs(urlsplit(head.split(" ")[1]).query)
        return {"from": asked["from"][0], "to": asked["to"][0], "count": 7}
    length = header(head, r"content-length: (\d+)")
    return answer(operation, json.loads(await reader.readexactly(int(length or 0))), state)


class Context:
    """The time that the stack gives a function, running out as it does there."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._deadline - time.monotonic()) * 1000)


def measure(
    what: str, targets: int, seconds: float, call: Callable[[Context], Any], reach: float | None = None
) -> None:
    context = Context(seconds)
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = call(context)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    in_time = "in time" if context.get_remaining_time_in_millis() > 0 else f"NOT within its {seconds} s"
    reached = "" if reach is None or targets < 100_000 else f", at most {reach:g}: {_reached(cpu <= reach)}"
    print(f"{targets:>6} targets, {what:<32} {cpu:6.2f} s CPU {wall:6.2f} s wall  {in_time}{reached}  {outcome}")


def _reached(is_so: bool) -> str:
    return "reached" if is_so else "NOT reached"


def configuration(targets: int, url: str) -> str:
    table = '[[targets]]\nname = "metric_{0:06d}"\nurl = "{1}/{0}"\n'
    rule = f'[[alerts]]\nto = "{url}/hook"\nwhen = ["silent"]\nwait = "0s"\n'
    return "\n".join(table.format(number, url) for number in range(targets)) + rule


def write_package(targets: int, folder: Path, url: str) -> None:
    """What infra packs; the configuration itself is parsed at synth and by no function."""
    text = configuration(targets, url)
    for name, body in bundle_files(text, make_bundles(parse_config(text).targets)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)


def lead_to(endpoint: str, folder: Path, targets: int) -> None:
    """The environment of the functions."""
    os.environ |= {
        "LAMBDA_TASK_ROOT": str(folder),
        "KIZAMI_BUNDLES": "bundles",
        "QUEUE_URL": f"{endpoint}/000000000000/queue",
        "KIZAMI_BACKFILL_QUEUE_URL": f"{endpoint}/000000000000/backfill",
        "AI_METRICS_TABLE_NAME": "AiResponseMetrics",
        "KIZAMI_LEDGER_TABLE_NAME": "Ticks",
        "KIZAMI_ALARM_TOPIC_ARN": TOPIC,
        "KIZAMI_RECONCILE_LIMIT": str(max(1000, targets)),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_REGION": "us-east-1",
    }


def run(targets: int, state: str, folder: Path) -> None:
    from kizami.aws import reconciler, sender

    command = [sys.executable, __file__, "--serve", state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        write_package(targets, folder, endpoint)
        lead_to(endpoint, folder, targets)
        if state == COMPLETE:
            event = {"time": "2025-12-02T10:23:07Z"}
            for start in ("cold", "warm"):
                call = lambda context: sender.handler(event, context)  # noqa: E731
                measure(f"Sender, {start}", targets, SENDER_SECONDS, call, SENDER_REACH)
            collect(folder)
            if targets <= MOST_ON_A_PAGE:
                look(targets, endpoint)
        reach = COMPLETE_REACH if state == COMPLETE else None
        call = lambda context: reconciler.handler({}, context)  # noqa: E731
        for _ in range(3 if state == DOWN else 1):
            measure(f"reconciler, {state}", targets, RECONCILER_SECONDS, call, reach)
            print(f"{'':>16} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB at most")
        server.terminate()


def look(targets: int, endpoint: str) -> None:
    """The first page over AWS, and the next one: all that `kizami status` and the page show of all targets."""
    from kizami.aws.backend import AwsBackend
    from kizami.backend.snapshot import take_snapshot
    from kizami.core.config import parse_config
    from kizami.platform.clock import SystemClock

    backend = AwsBackend(
        AwsHere(endpoint), parse_config(configuration(targets, endpoint)).targets, SystemClock(), 960
    )
    for what in ("first page", "next page"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        measure(what, targets, PAGE_SECONDS, lambda _: str(take_snapshot(backend, datetime.now(UTC)).overview.day))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        print(f"{'':>16} {grown} MB more memory than before")


class AwsHere:
    """Where the parts of the stack are."""

    table, ledger = "AiResponseMetrics", "Ticks"

    def __init__(self, endpoint: str) -> None:
        self.queue = self.backfill_queue = self.dead_letter_queue = f"{endpoint}/000000000000/queue"


def collect(folder: Path) -> None:
    """The largest bundle, over and over: a slot's CPU with the request, the answer, the write and the ledger."""
    from kizami.aws import collector
    from kizami.aws.bundles.files import PackagedBundles
    from kizami.core.messages import BundleMessage, write_bundle
    from kizami.core.slots import Window

    bundle = max(PackagedBundles(str(folder / "bundles")).all(), key=lambda each: len(each.members))
    slot = floor_to_slot(datetime.now(UTC) - timedelta(minutes=1))
    body = write_bundle(BundleMessage(Window(slot, slot + timedelta(seconds=5)), bundle.members))
    event = {"Records": [{"messageId": "m", "body": body}]}
    started = time.process_time()
    cold = collector.handler(event, Context(COLLECTOR_SECONDS))
    first = time.process_time() - started
    started = time.process_time()
    for _ in range(ROUNDS):
        collector.handler(event, Context(COLLECTOR_SECONDS))
    a_slot = (time.process_time() - started) / ROUNDS / len(bundle.members)
    told = f"{first:.3f} s CPU cold, {a_slot * 1000:.3f} ms a slot warm"
    print(f"       a bundle of {len(bundle.members)}, Collector: {told}  {cold}")


def main() -> None:
    if "--serve" in sys.argv:
        asyncio.run(serve(sys.argv[-1]))
    import logging

    logging.getLogger("kizami").addHandler(logging.NullHandler())
    for targets in map(int, sys.argv[1:] or ["100", "1000", "10000", "100000"]):
        for state in (COMPLETE, HOLES, DOWN):
            with tempfile.TemporaryDirectory() as folder:
                run(targets, state, Path(folder))


if __name__ == "__main__":
    main()

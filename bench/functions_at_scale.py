"""What many targets cost the Sender and the reconciler: CPU and wall time, against an AWS that answers in 10 ms.

    python bench/functions_at_scale.py [targets …]

CPU time is what counts: a Lambda function has one vCPU at 1,769 MB and a share of it below. The reconciler meets
tables that are complete, and then tables that lack the same minute of every target.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from kizami.core.slots import floor_to_slot, format_instant, parse_instant, slots_between

ANSWER_SECONDS = 0.01
HOLE_AGE = timedelta(minutes=90)


def answer(operation: str, request: dict[str, Any], holes: bool) -> dict[str, Any]:
    """SQS and DynamoDB as far as these functions need them."""
    if operation == "SendMessageBatch":
        return {"Successful": [{"Id": entry["Id"], "MessageId": "m"} for entry in request["Entries"]]}
    if operation == "GetQueueAttributes":
        return {"Attributes": {"ApproximateNumberOfMessages": "0"}}
    values = {name: value["S"] for name, value in request["ExpressionAttributeValues"].items()}
    slots = stored_slots(values, holes)
    if "Select" in request:
        return {"Count": len(slots)}
    if not request.get("ScanIndexForward", True):
        slots = slots[-1:]
    items = [row(values[":metric"], slot) for slot in slots[: request.get("Limit")]]
    return {"Count": len(items), "Items": items}


def stored_slots(values: dict[str, str], holes: bool) -> list[datetime]:
    now = datetime.now(UTC)
    first = parse_instant(values[":first"]) if ":first" in values else floor_to_slot(now - timedelta(hours=4))
    last = parse_instant(values[":last"]) if ":last" in values else first
    hole = floor_to_slot(now - HOLE_AGE, 60) if holes else None
    slots = slots_between(max(first, last - timedelta(hours=4)), last + timedelta(seconds=1), 5)
    return [slot for slot in slots if hole is None or floor_to_slot(slot, 60) != hole]


def row(metric: str, slot: datetime) -> dict[str, Any]:
    text = {"S": format_instant(slot)}
    return {"metricName": {"S": metric}, "slotTime": text, "count": {"N": "1"}, "collectedAt": text}


def header(head: str, pattern: str) -> str:
    """What the pattern's group finds in a request's head."""
    found = re.search(pattern, head, re.IGNORECASE)
    assert found is not None, head
    return found[1]


async def serve(holes: bool) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(header(head, r"content-length: (\d+)"))
                operation = header(head, r"x-amz-target: \S+\.(\w+)")
                request = json.loads(await reader.readexactly(length))
                body = json.dumps(answer(operation, request, holes)).encode()
                await asyncio.sleep(ANSWER_SECONDS)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 120_000


def measure(what: str, targets: int, call: Callable[[], Any]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{targets:>6} targets, {what:<36} {cpu:6.2f} s CPU {wall:6.2f} s wall  {outcome}")


def run(targets: int, holes: bool, folder: str) -> None:
    from kizami.aws import reconciler, sender

    config = Path(folder) / f"{targets}.toml"
    table = '[[targets]]\nname = "metric_{0:06d}"\nurl = "https://api.example.com/{0}"\n'
    config.write_text("\n".join(table.format(number) for number in range(targets)))
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", *(["--holes"] if holes else [])], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        os.environ |= {
            "KIZAMI_CONFIG": str(config),
            "QUEUE_URL": f"{endpoint}/000000000000/queue",
            "AI_METRICS_TABLE_NAME": "AiResponseMetrics",
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_REGION": "us-east-1",
        }
        if not holes:
            event = {"time": "2025-12-02T10:23:07Z"}
            measure("Sender, cold", targets, lambda: sender.handler(event, Context()))
            measure("Sender, warm", targets, lambda: sender.handler(event, Context()))
        state = "a minute is missing" if holes else "complete"
        measure(f"reconciler, {state}", targets, lambda: reconciler.handler({}, Context()))
        server.terminate()


def main() -> None:
    if "--serve" in sys.argv:
        asyncio.run(serve("--holes" in sys.argv))
    with tempfile.TemporaryDirectory() as folder:
        for targets in map(int, sys.argv[1:] or ["1", "100", "1000"]):
            for holes in (False, True):
                run(targets, holes, folder)


if __name__ == "__main__":
    main()

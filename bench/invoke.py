"""One life of a Python function in the benchmark: import, first invocation, then warm ones.

    python bench/invoke.py MODULE EVENT.json WARM_UP MEASURED RESULTS

Writes `first` as soon as the first invocation is done, then a line of JSON, both to the file descriptor RESULTS.
"""

from __future__ import annotations

import os
import sys


class Context:
    """The only thing that our functions ask of Lambda's context."""

    aws_request_id = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def main(module: str, event_file: str, warm_up: int, measured: int, results: int) -> None:
    import importlib
    import json

    handler = importlib.import_module(module).handler
    with open(event_file, encoding="utf-8") as file:
        event = json.load(file)
    handler(event, Context())
    os.write(results, b"first\n")
    for _ in range(warm_up):
        handler(event, Context())

    import time

    started = time.process_time()
    for _ in range(measured):
        handler(event, Context())
    cpu_ms = (time.process_time() - started) * 1000 / measured
    os.write(results, json.dumps({"warm_cpu_ms": cpu_ms, "peak_rss_mb": peak_rss_mb()}).encode() + b"\n")


def peak_rss_mb() -> float:
    """Of this program alone; getrusage would count the process that it was forked from."""
    with open("/proc/self/status", encoding="ascii") as status:
        (kilobytes,) = (int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return kilobytes / 1024


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))

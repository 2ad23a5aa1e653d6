"""A real Prometheus on this machine with samples of ours, and what its API, or ours, answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from programs.daemon import wait_for
from programs.fetched_tools import prometheus

Sample = tuple[float, int]  # a value, and the second at which it stands


@contextmanager
def prometheus_with(series: Mapping[str, Sequence[Sample]], port: int, scratch: Path) -> Iterator[str]:
    """It runs for the length of a `with`, with these series of `job="kizami"`, each valid for one slot of 5 s."""
    tools = prometheus()
    (scratch / "samples.txt").write_text("".join(_lines(series)) + "# EOF\n")
    (scratch / "prometheus.yml").write_text("")
    blocks: list[str | Path] = [tools / "promtool", "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run(
        [*blocks, scratch / "samples.txt", scratch / "data"], check=True, capture_output=True, timeout=90
    )
    address = f"127.0.0.1:{port}"
    command: list[str | Path] = [
        tools / "prometheus",
        f"--config.file={scratch}/prometheus.yml",
        f"--storage.tsdb.path={scratch}/data",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
        "--query.lookback-delta=4999ms",
        "--log.level=error",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: _is_ready(f"http://{address}/-/ready"), "Prometheus")
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def _lines(series: Mapping[str, Sequence[Sample]]) -> Iterator[str]:
    for name, samples in series.items():
        yield f"# TYPE {name} gauge\n"
        yield from (f'{name}{{job="kizami"}} {value} {second}\n' for value, second in samples)


def _is_ready(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except (requests.ConnectionError, requests.Timeout):
        return False


def range_values(
    url: str, query: str, start: float, end: float, step: float
) -> dict[str, list[tuple[float, Any]]]:
    """The values of a range query by the labels of their series."""
    parameters: dict[str, Any] = {"query": query, "start": start, "end": end, "step": step}
    answer = requests.get(f"{url}/api/v1/query_range", params=parameters, timeout=90).json()
    assert answer["status"] == "success", answer
    return {
        json.dumps(series["metric"], sort_keys=True): [
            (round(moment), pytest.approx(float(value), nan_ok=True)) for moment, value in series["values"]
        ]
        for series in answer["data"]["result"]
    }

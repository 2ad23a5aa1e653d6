"""How long the Sender needs for many targets: its own CPU and wall time, against a queue that answers at once.

    python bench/sender_at_scale.py [targets …]

CPU time is what counts: a Lambda function has 1 vCPU at 1,769 MB and a share of it below.
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
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))


async def answer_batches(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """SQS as far as SendMessageBatch needs it: every entry is taken, 10 ms later as AWS would."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            body = await reader.readexactly(int(re.search(r"(?i)content-length: (\d+)", head)[1]))
            taken = [{"Id": entry["Id"], "MessageId": "m"} for entry in json.loads(body)["Entries"]]
            answer = json.dumps({"Successful": taken}).encode()
            await asyncio.sleep(0.01)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(answer_batches, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def measure(targets: int, port: int, folder: str) -> None:
    config = Path(folder) / f"{targets}.toml"
    table = '[[targets]]\nname = "metric_{0:06d}"\nurl = "https://api.example.com/{0}"\n'
    config.write_text("\n".join(table.format(number) for number in range(targets)))
    os.environ |= {
        "KIZAMI_CONFIG": str(config),
        "QUEUE_URL": f"http://127.0.0.1:{port}/000000000000/queue",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_REGION": "us-east-1",
    }
    from kizami.aws.sender import handler

    for run in ("cold", "warm"):
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = handler({"time": "2025-12-02T10:23:07Z"}, Context())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{targets:>6} targets {run}: {outcome}, {cpu:.2f} s CPU, {wall:.2f} s wall")


def main() -> None:
    if sys.argv[1:] == ["--serve"]:
        asyncio.run(serve())
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        with tempfile.TemporaryDirectory() as folder:
            for targets in map(int, sys.argv[1:] or ["1", "10", "100", "1000"]):
                measure(targets, port, folder)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()

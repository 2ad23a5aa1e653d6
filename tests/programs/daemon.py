"""`kizami up` as a real process for tests: started, read along with, stopped in every way there is."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from kizami.core.slots import parse_instant
from kizami.local.store.reader import Reader
from programs.command import KIZAMI

SOURCES = Path(__file__).parent.parent.parent / "src"
PATIENCE_SECONDS = 120  # of a machine that is busy with something else; nothing waits longer than it must


def write_whole(path: Path, text: str) -> None:
    """As an editor saves: whoever looks finds the old text or the new one, never half of it."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    beside.replace(path)


def toml(targets: Sequence[Mapping[str, Any]]) -> str:
    """A kizami.toml with these targets."""
    tables = []
    for target in targets:
        lines = [f"{name} = {_toml_value(value)}" for name, value in target.items()]
        tables.append("\n".join(["[[targets]]", *lines]))
    return "\n\n".join(tables) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml_value(item)}" for name, item in value.items()) + " }"
    return json.dumps(value)


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """What the condition gives as soon as that is something; the test fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.02)
    return found


class Daemon:
    """One `kizami up`, killed at the end of `with` if it still runs; `wrapper` is a command that becomes it."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        program: Sequence[str] = KIZAMI,
        obeys_permissions: bool = False,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.database = directory / "kizami.db"
        self.config = directory / "kizami.toml"
        self.log_file = directory / f"log-{time.monotonic_ns()}"
        self.rows: list[dict[str, Any]] = []
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KIZAMI_")}
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                [*wrapper, *program, "up", *arguments],
                cwd=directory,
                env=inherited | {"PYTHONPATH": str(SOURCES)},
                preexec_fn=obey_permissions if obeys_permissions and os.getuid() == 0 else None,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        """Its exit code, once all that it wrote is read."""
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self._reading.join()
        assert self.process.stdout
        self.process.stdout.close()
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.wait()

    def wait_for_rows(self, count: int) -> list[dict[str, Any]]:
        """Its first rows, once there are so many."""
        wait_for(lambda: len(self.rows) >= count or self.process.poll() is not None, f"{count} rows")
        assert len(self.rows) >= count, self.log_file.read_text()
        return self.rows[:count]

    def log(self) -> list[dict[str, Any]]:
        """Its log lines so far; one that is just being written is none yet."""
        whole, _, _ = self.log_file.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def wait_for_event(self, event: str, times: int = 1) -> dict[str, Any]:
        """The log line of this event, the first or a later one."""
        lines: list[dict[str, Any]] = wait_for(
            lambda: [line for line in self.log() if line["event"] == event][times - 1 :], event
        )
        return lines[0]

    def stored(self, metric: str, start: datetime, end: datetime) -> dict[datetime, float]:
        """The slots that are in the database, with their counts."""
        with Reader.opened(self.database) as reader:
            return {record.slot: record.count for record in reader.records(metric, start, end)}

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.endswith("\n"):  # who is killed may leave half a line
                self.rows.append(json.loads(line))


def obey_permissions() -> None:
    """Let root be bound by the permissions of files, as everybody else is (Linux)."""
    drop_capability, override_permissions, search_everywhere = 24, 1, 2
    for capability in (override_permissions, search_everywhere):
        if ctypes.CDLL(None, use_errno=True).prctl(drop_capability, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "cannot drop a capability")


def slots_of(rows: Sequence[Mapping[str, Any]], metric: str) -> list[datetime]:
    """The slots of one metric, as rows on stdout tell of them."""
    return [parse_instant(row["slotTime"]) for row in rows if row["metricName"] == metric]

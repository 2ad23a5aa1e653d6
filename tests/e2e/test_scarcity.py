"""`kizami up` where something runs out: descriptors, or a name server that answers. The rest goes on as ever."""

from __future__ import annotations

import http.client
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from programs.daemon import Daemon, toml, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit and /proc")


def target(name: str, url: str) -> dict[str, object]:
    return {"name": name, "url": url, "interval": 1, "timeout": 60}


def open_files(daemon: Daemon) -> int:
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


@contextmanager
def files_limited(daemon: Daemon, files: int) -> Iterator[None]:
    """No more descriptors than it has, for a while."""
    pid = daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_clients_for_whom_there_is_no_descriptor_wait_and_the_log_says_so_once(tmp_path: Path) -> None:
    with FaultServer(faults.answer()) as server:
        (tmp_path / "kizami.toml").write_text(toml([target("calls", server.url)]))
        with Daemon(tmp_path, "--dashboard-port", "0") as daemon:
            daemon.wait_for_rows(1)
            place = urlsplit(daemon.wait_for_event("dashboard.served")["url"])
            with files_limited(daemon, open_files(daemon)):
                client = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=120)
                client.request("GET", "/api/v1/status")
                line = daemon.wait_for_event("clients.waiting")
                daemon.wait_for_rows(len(daemon.rows) + 3)  # polling goes on
            assert client.getresponse().status in (200, 404)  # and it is served in the end
            client.close()
            assert daemon.stop() == 0
            assert "ulimit -n" in line["remedy"]
            assert len(daemon.log()) < 30


@pytest.fixture
def silent_name_server() -> Iterator[str]:
    """An address where names can be asked for and nobody answers."""
    with socket.socket(type=socket.SOCK_DGRAM) as listener:
        address = f"127.{random.randint(1, 250)}.{random.randint(0, 250)}.{random.randint(1, 250)}"
        listener.bind((address, 53))
        yield address


def mounts_possible() -> bool:
    command = shutil.which("unshare")
    return (
        command is not None and subprocess.run([command, "--mount", "true"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(os.geteuid() != 0 or not mounts_possible(), reason="needs root, for a resolv.conf of its own")
def test_sixty_names_that_hang_touch_nobody_else_and_no_stop(tmp_path: Path, silent_name_server: str) -> None:
    # Each lookup takes ten minutes: far longer than anything here waits.
    (tmp_path / "resolv.conf").write_text(f"nameserver {silent_name_server}\noptions timeout:30 attempts:5\n")
    (tmp_path / "hosts").write_text("127.0.0.1 healthy.test\n")
    with FaultServer(faults.answer()) as server:
        port = urlsplit(server.url).port
        hanging = [target(f"hangs{number:02d}", f"http://hangs{number}.test:{port}") for number in range(60)]
        healthy = [target("a_name", f"http://healthy.test:{port}"), target("an_address", server.url)]
        (tmp_path / "kizami.toml").write_text(toml([{**each, "timeout": 2} for each in hanging] + healthy))
        with Daemon(tmp_path, "--no-dashboard", wrapper=private_names(tmp_path)) as daemon:
            wait_for(lambda: answered_by(daemon) >= {"a_name", "an_address"}, "both healthy targets")
            daemon.wait_for_event("target.failing")
            daemon.wait_for_rows(len(daemon.rows) + 6)
            assert daemon.stop() == 0
            failing = {line["metric"] for line in daemon.log() if line["event"] == "target.failing"}
    assert failing
    assert failing.isdisjoint({"a_name", "an_address"})


def answered_by(daemon: Daemon) -> set[str]:
    return {row["metricName"] for row in daemon.rows}


def private_names(directory: Path) -> list[str]:
    """What makes a process see the directory's resolv.conf and hosts in place of the system's."""
    mounts = " && ".join(f"mount --bind {directory / name} /etc/{name}" for name in ("resolv.conf", "hosts"))
    return ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh"]


def test_more_hosts_than_descriptors_are_all_stored(tmp_path: Path) -> None:
    with FaultServer(faults.answer()) as server:
        port = urlsplit(server.url).port
        targets = [target(f"t{number}", f"http://h{number}.localhost:{port}") for number in range(300)]
        (tmp_path / "kizami.toml").write_text(toml([{**each, "interval": 5} for each in targets]))
        with Daemon(
            tmp_path, "--no-dashboard", wrapper=["sh", "-c", 'ulimit -n 200 && exec "$@"', "sh"]
        ) as daemon:
            line = daemon.wait_for_event("connections.scarce")
            rows = daemon.wait_for_rows(600)
            assert daemon.stop() == 0
            events = [line["event"] for line in daemon.log()]
    assert "LimitNOFILE" in line["remedy"]
    assert "target.failing" not in events
    assert len(events) < 30
    assert {row["metricName"] for row in rows} == {f"t{number}" for number in range(300)}

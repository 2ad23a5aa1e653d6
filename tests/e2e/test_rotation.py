"""Secrets that change while `kizami up` runs: no restart, no lost slot, no storm."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import fakes.fault_server as faults
from fakes.authority import Authority
from fakes.fault_server import Exchange, FaultServer
from fakes.tokens import TokenedApi
from programs.daemon import Daemon, slots_of, toml, wait_for, write_whole

FAST = {"interval": "1s", "lag": "1s", "timeout": "60s"}
QUIET = ("--no-dashboard", "--no-mock")


class OnlyTheNewest:
    """Takes the newest token only."""

    def __init__(self) -> None:
        self.token = "token-0-of-many"
        self.refused = threading.Event()

    def __call__(self, exchange: Exchange) -> None:
        if exchange.request.headers.get("authorization") == f"Bearer {self.token}":
            faults.answer()(exchange)
        else:
            self.refused.set()
            faults.status(401)(exchange)


def has_all(daemon: Daemon, metric: str, seconds: int) -> bool:
    """Whether the first slots, for so many seconds, are all there."""
    slots = set(slots_of(daemon.rows, metric))
    return all(min(slots) + timedelta(seconds=number) in slots for number in range(seconds))


def test_a_token_that_is_rotated_in_its_file_is_used_without_a_restart_and_no_slot_is_lost(tmp_path: Path) -> None:
    api, token = OnlyTheNewest(), tmp_path / "token"
    token.write_text(api.token)
    with FaultServer(api) as server:
        target = {"name": "calls", "url": server.url, "auth": {"bearer": f"file:{token}"}, **FAST}
        (tmp_path / "kizami.toml").write_text(toml([target]))
        with Daemon(tmp_path, *QUIET) as daemon:
            daemon.wait_for_rows(1)
            api.token = "token-1-of-many"
            assert api.refused.wait(60)  # the old one is withdrawn before the new one is there
            write_whole(token, api.token)
            daemon.wait_for_event("secret.changed")
            wait_for(lambda: has_all(daemon, "calls", 4), "every slot, the refused ones too")
            assert daemon.stop() == 0
    assert "-of-many" not in daemon.log_file.read_text()


def test_many_targets_of_one_client_keep_one_token_fresh_behind_a_certificate_of_their_own(tmp_path: Path) -> None:
    authority, api = Authority(tmp_path), TokenedApi("s3cret-of-client", expires_in=1)
    (tmp_path / "secret").write_text("s3cret-of-client")
    with FaultServer(api, tls=authority.serve(authority.sign("server"))) as server:
        secret = f"file:{tmp_path}/secret"
        client = {"token_url": f"{server.url}/token", "client_id": "me", "client_secret": secret}
        shared = {"url": server.url, "auth": {"oauth2": client}, "tls": {"ca": "authority.pem"}, **FAST}
        (tmp_path / "kizami.toml").write_text(toml([{"name": f"t{number}", **shared} for number in range(20)]))
        with Daemon(tmp_path, *QUIET) as daemon:
            wait_for(lambda: len(api.given) >= 3 and len(daemon.rows) >= 40, "three tokens")
            asked = [request.target.partition("?")[0] for request in server.requests]
            assert daemon.stop() == 0
    assert asked.count("/token") < asked.count("/response_count") / 3
    log = daemon.log_file.read_text()
    assert "target.failing" not in log
    assert "s3cret-of-client" not in log

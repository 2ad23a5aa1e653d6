"""A name server on the loopback for the benchmark's names, and how a process comes to ask it and no other.

    python -m bench.name_server ADDRESS

Every address of a target is answered at once; other names do not exist. Needs root: port 53, and a mount.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
from pathlib import Path

from bench.layout import address

ADDRESS = "127.53.53.53"
_A, _TTL_SECONDS = 1, 5


def answer(query: bytes) -> bytes:
    """The one question of a query, answered."""
    end = query.index(b"\0", 12)
    label = query[13 : 13 + query[12]]
    kind = struct.unpack("!H", query[end + 1 : end + 3])[0]
    number = label[1:].decode("ascii", "replace") if label[:1] == b"t" else ""
    found = kind == _A and number.isdigit()
    head = query[:2] + struct.pack("!HHHHH", 0x8580 if number.isdigit() else 0x8583, 1, int(found), 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", _A, 1, _TTL_SECONDS, 4) if found else b""
    return head + query[12 : end + 5] + record + (socket.inet_aton(address(int(number))) if found else b"")


def available() -> bool:
    return os.geteuid() == 0 and shutil.which("unshare") is not None


def with_names(command: list[str], directory: Path) -> list[str]:
    """The command, for a process that asks this name server and no other."""
    resolver = directory / "resolv.conf"
    resolver.write_text(f"nameserver {ADDRESS}\n")
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(resolver), *command]


def serve(host: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as listener:
        listener.bind((host, 53))
        print("ready", flush=True)
        while True:
            query, client = listener.recvfrom(512)
            listener.sendto(answer(query), client)


if __name__ == "__main__":
    serve(sys.argv[1])

"""Where the polled targets live: a host each or one for all, and which of them fail."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

DOMAIN = "bench.test"
KINDS = ("own", "shared", "closing", "names", "tls")
NAMED = ("names", "tls")


@dataclass(frozen=True, slots=True)
class Layout:
    """`own`: a host for each target, 127.x.y.z; `shared`: one host for all; `closing`: as `own`, and each answer
    closes its connection; `names`: as `closing`, by names of a name server here; `tls`: by names and over TLS."""

    kind: str
    port: int

    def origin(self, number: int) -> str:
        """The target's URL as far as its host."""
        scheme = "https" if self.kind == "tls" else "http"
        return f"{scheme}://{self.host(number)}:{self.port}"

    def host(self, number: int) -> str:
        if self.kind == "shared":
            return "127.0.0.1"
        return f"t{number}.{DOMAIN}" if self.kind in NAMED else address(number)


def address(number: int) -> str:
    """The target's own address on the loopback."""
    return f"127.{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}"


def fails(number: int) -> bool:
    """One target in a hundred answers 500."""
    return number % 100 == 50


def hangs(number: int) -> bool:
    """One target in two hundred never answers."""
    return number % 200 == 25


def is_healthy(target: str) -> bool:
    number = int(target[1:])
    return not (fails(number) or hangs(number))


def write_certificate(directory: Path) -> Path:
    """A certificate for all names of the layout and its key, in one file that can also be trusted."""
    file, key = directory / "certificate.pem", directory / "key.pem"
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bench"
    places = ["-addext", f"subjectAltName=DNS:*.{DOMAIN}", "-keyout", str(key), "-out", str(file)]
    subprocess.run([*request.split(), *places], check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context

"""An authority of one's own for tests: certificates of servers and clients, as files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM
_PKCS8 = serialization.PrivateFormat.PKCS8


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs what it is asked for, into `directory`; its own certificate is `file`, signed by `above` or itself.

    No certificate names the key that signed it, and one that is not `complete` leaves out what its own key is for.
    """

    def __init__(
        self, directory: Path, name: str = "authority", *, complete: bool = True, above: Authority | None = None
    ) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"kizami test {name}")])
        issuer = above or self
        built = issuer._builder(self._name, self._key, timedelta(hours=1))
        built = built.add_extension(x509.BasicConstraints(True, None), True)
        if complete:
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            built = built.add_extension(usage, True)
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(built.sign(issuer._key, hashes.SHA256()).public_bytes(_PEM))

    def sign(self, name: str, host: str = "127.0.0.1", lasts: timedelta = timedelta(hours=1)) -> Pair:
        """A certificate for the host, good for a server and for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        built = self._builder(subject, key, lasts)
        known = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        built = built.add_extension(x509.SubjectAlternativeName([known]), False)
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        pair.cert.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        pair.key.write_bytes(key.private_bytes(_PEM, _PKCS8, serialization.NoEncryption()))
        return pair

    def serve(self, pair: Pair, *, asks_for_certificate: bool = False) -> ssl.SSLContext:
        """A server's context with the pair; it may ask for a certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        if asks_for_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.file)
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        built = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        return built.not_valid_before(now - timedelta(days=2)).not_valid_after(now + lasts)

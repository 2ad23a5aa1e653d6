"""Certificates: what OpenSSL says becomes a problem with its remedy, and when one expires is read from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.access.certificates import explain, valid_until

KEY = ed25519.Ed25519PrivateKey.generate()
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])


def certificate(end: datetime) -> bytes:
    builder = x509.CertificateBuilder(NAME, NAME, KEY.public_key(), 7)
    builder = builder.not_valid_before(end - timedelta(days=1)).not_valid_after(end)
    return builder.sign(KEY, None).public_bytes(serialization.Encoding.PEM)


INSTANTS = st.integers(10**8, 10**10).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@given(INSTANTS, INSTANTS)
def test_the_first_end_is_read_whatever_stands_around_it(one: datetime, other: datetime) -> None:
    pem = b"words\n" + certificate(one) + b"\nmore\n" + certificate(other)
    assert valid_until(pem) == min(one, other)


@given(st.binary(max_size=200))
def test_what_is_no_certificate_has_no_end(noise: bytes) -> None:
    assert valid_until(noise) is None
    assert valid_until(b"-----BEGIN CERTIFICATE-----" + noise + b"-----END CERTIFICATE-----") is None


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("SSL certificate problem: self-signed certificate", "ca"),
        ("SSL certificate problem: self signed certificate in certificate chain", "ca"),
        ("unable to get local issuer certificate", "ca"),
        ("SSL: no alternative certificate subject name matches target host name 'x'", "write url with the name"),
        ("Hostname mismatch, certificate is not valid for 'x'.", "write url with the name"),
        ("certificate has expired", "have it renewed"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "cert"),
        ("OpenSSL SSL_read: error:0A00045C:SSL routines::tlsv13 alert certificate required, errno 0", "cert"),
        ("TLSV1_ALERT_UNKNOWN_CA", "is the file of tls.cert the right one?"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "renew the file of tls.cert"),
        ("WRONG_VERSION_NUMBER", "is the URL right"),
    ],
)
def test_a_certificate_that_stands_in_the_way_names_what_helps(words: str, remedy: str) -> None:
    error = explain(words)
    assert error is not None
    assert (f"tls = {{ {remedy} = " if remedy in ("ca", "cert") else remedy) in error.remedy
    assert str(error) == f"{error.problem}; {error.remedy}"


def test_other_words_are_left_alone() -> None:
    assert explain("Connection refused") is None

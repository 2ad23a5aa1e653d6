"""auth, tls and proxy of kizami.toml: what may be said, and every refusal in one line without the secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.access.auth import BasicAuth, BearerAuth, OAuth2Auth, auth_fields, authorization, parse_auth
from kizami.core.access.proxy import Proxy, read_proxy
from kizami.core.access.tls import Tls, below, tls_fields
from kizami.core.config import parse_config
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

MINIMAL = '[[targets]]\nname = "cpu"\nurl = "https://api.example.com"\n'
CLIENT = 'token_url = "https://login.example.com/token", client_id = "me", client_secret = "env:SECRET"'
SECRETS = {"env:TOKEN": "t0ken", "env:PW": "p:w", "env:USER": "me"}


def target_of(settings: str) -> Target:
    return parse_config(MINIMAL + settings).targets[0]


def refusal_of(settings: str) -> str:
    with pytest.raises(ConfigurationError) as refusal:
        parse_config(MINIMAL + settings)
    line = str(refusal.value)
    assert len(line.splitlines()) == 1
    assert "hunter2" not in line
    return line.removeprefix("kizami.toml: targets[0].")


def reference(text: str) -> SecretReference:
    kind, _, name = text.partition(":")
    return SecretReference(kind, name)


def look_up(found: SecretReference) -> str:
    return SECRETS[str(found)]


@pytest.mark.parametrize(
    ("stated", "auth", "header"),
    [
        ({"bearer": "env:TOKEN"}, BearerAuth(reference("env:TOKEN")), "Bearer t0ken"),
        ({"basic": ["me", "env:PW"]}, BasicAuth("me", reference("env:PW")), "Basic bWU6cDp3"),
        (
            {"basic": ["env:USER", "env:PW"]},
            BasicAuth(reference("env:USER"), reference("env:PW")),
            "Basic bWU6cDp3",
        ),
        ({"basic": ["env:TOKEN", ""]}, BasicAuth(reference("env:TOKEN"), ""), "Basic dDBrZW46"),
        ({"basic": ["env:TOKEN", "X"]}, BasicAuth(reference("env:TOKEN"), "X"), "Basic dDBrZW46WA=="),
    ],
)
def test_who_asks_is_told_in_a_header(stated: object, auth: BearerAuth | BasicAuth, header: str) -> None:
    assert parse_auth(stated) == auth
    assert authorization(auth, look_up) == header
    assert auth_fields(auth) == stated


def test_a_token_that_is_kept_with_its_scheme_is_not_given_another() -> None:
    assert authorization(BearerAuth(reference("env:T")), lambda _: "bearer abc") == "bearer abc"


def test_an_oauth2_client_is_read() -> None:
    auth = target_of(f'auth = {{ oauth2 = {{ {CLIENT}, scope = "a b" }} }}').auth
    assert auth == OAuth2Auth("https://login.example.com/token", "me", reference("env:SECRET"), "a b")
    assert parse_auth(auth_fields(auth)) == auth


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ('auth = "hunter2"', 'auth: must be one of { bearer = "env:TOKEN" }'),
        ("auth = {}", "auth: must be one of "),
        ('auth = { digest = "hunter2" }', "auth.digest: is not a setting; known: bearer, basic, oauth2"),
        ('auth = { bearer = "env:A", basic = ["u", "env:B"] }', "auth: must be one of "),
        ('auth = { bearer = "hunter2" }', "auth.bearer: must be a reference like env:NAME or file:PATH"),
        ('auth = { bearer = "env:hunter2 x" }', "auth.bearer: must name a variable after env:"),
        ('auth = { basic = ["u", "hunter2"] }', "auth.basic: must be a reference like env:NAME"),
        ('auth = { basic = ["u", ""] }', "auth.basic: must be a reference like env:NAME"),
        ('auth = { basic = ["env:U", "hunter2"] }', "auth.basic: must be a reference like env:NAME"),
        ('auth = { basic = ["u:hunter2", "env:P"] }', "auth.basic: must not have a : in the user's name"),
        ('auth = { basic = ["", "env:P"] }', "auth.basic: must not be empty"),
        ('auth = { basic = "u:hunter2" }', 'auth.basic: must be a list like ["user", "env:PASSWORD"]'),
        ('auth = { basic = ["u", "env:P", "x"] }', 'auth.basic: must be a list like ["user", "env:PASSWORD"]'),
        ("auth = { oauth2 = 5 }", "auth.oauth2: must be a table with token_url, client_id and client_secret"),
        ('auth = { oauth2 = { client_id = "x" } }', "auth.oauth2.token_url: is required"),
        (
            f'auth = {{ oauth2 = {{ {CLIENT}, password = "hunter2" }} }}',
            "auth.oauth2.password: is not a setting; known: token_url",
        ),
        (
            'auth = { oauth2 = { token_url = "x", client_id = "a", client_secret = "env:S" } }',
            "auth.oauth2.token_url: must be like https://",
        ),
        (
            f"auth = {{ oauth2 = {{ {CLIENT.replace('env:SECRET', 'hunter2')} }} }}",
            "auth.oauth2.client_secret: must be a reference",
        ),
        (f'auth = {{ oauth2 = {{ {CLIENT}, scope = ["a"] }} }}', "auth.oauth2.scope: must be one line"),
        (
            'auth = { bearer = "env:A" }\nheaders = { authorization = "env:B" }',
            "auth: stands beside headers.Authorization; keep one of the two",
        ),
        ('tls = "ca.pem"', 'tls: must be a table like { ca = "ca.pem" }'),
        ("tls = {}", "tls: must be a table like "),
        ("tls = { verify = false }", "tls.verify: is not a setting; known: ca, cert, key"),
        ('tls = { key = "my.key" }', "tls.key: needs tls.cert beside it"),
        ('tls = { ca = "" }', "tls.ca: must be the path of a PEM file, or a reference"),
        ('tls = { key = "-----BEGIN hunter2", cert = "c" }', "tls.key: must be the path of a PEM file"),
        ("proxy = 5", "proxy: must be like http://proxy.example.com:3128; one with a password is kept elsewhere"),
        ('proxy = "http://me:hunter2@proxy:3128"', "proxy: must be like http://proxy.example.com:3128; one with"),
        ('proxy = "proxy:3128"', "proxy: must be like http://proxy.example.com:3128, http:// and the port"),
        ('proxy = "https://proxy:3128"', "proxy: must be "),
        ('proxy = "socks5://proxy:1080"', "proxy: must be "),
        ('proxy = "http://proxy"', "proxy: must be like http://proxy.example.com:3128, http:// and the port"),
        ('proxy = "http://proxy:3128/path"', "proxy: must be like "),
        ('proxy = "http://pro xy:3128"', "proxy: must be a URL without spaces"),
    ],
)
def test_a_mistake_is_one_line_that_names_its_place(settings: str, line: str) -> None:
    assert refusal_of(settings).startswith(line)


def test_certificates_need_a_url_that_has_them() -> None:
    with pytest.raises(InvalidInput, match=r"^tls: needs a url that begins with https://"):
        Target(url="http://127.0.0.1", tls=Tls(ca="ca.pem"))


def test_every_reference_is_told_with_its_place() -> None:
    target = target_of(
        'headers = { X-Key = "env:A" }\nauth = { basic = ["env:B", "file:C"] }\nproxy = "env:D"\n'
        'tls = { ca = "ca.pem", cert = "env:E", key = "ssm:F" }'
    )
    assert {place: str(found) for place, found in target.references()} == {
        "headers.X-Key": "env:A",
        "auth.basic (user)": "env:B",
        "auth.basic": "file:C",
        "proxy": "env:D",
        "tls.cert": "env:E",
        "tls.key": "ssm:F",
    }


def test_paths_of_certificates_are_seen_from_where_the_file_is() -> None:
    tls = Tls("ca.pem", "/etc/my.pem", reference("env:KEY"))
    assert below(tls, "/srv") == Tls("/srv/ca.pem", "/etc/my.pem", reference("env:KEY"))
    assert below(tls, "") == tls
    assert tls_fields(tls) == {"ca": "ca.pem", "cert": "/etc/my.pem", "key": "env:KEY"}


WORDS = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20)


@given(WORDS, WORDS)
def test_a_proxy_says_who_it_is_for_whatever_the_password(user: str, password: str) -> None:
    from urllib.parse import quote

    proxy = read_proxy(f"http://{quote(user, safe='')}:{quote(password, safe='')}@[::1]:3128")
    assert proxy == Proxy("::1", 3128, user, password)
    assert bool(proxy.authorization) == bool(user or password)
    assert not password or len(password) < 4 or password not in repr(proxy)

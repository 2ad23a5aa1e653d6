"""Where a request may go: base URLs and path templates, and what is refused without being quoted."""

from __future__ import annotations

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.targets.target import DEFAULT_PATH
from kizami.core.targets.urls import require_base_url, require_path


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:3000",
        "https://api.example.com",
        "https://api.example.com/",
        "https://api.example.com./v1/",
        "https://api.example.com:/v1",
        "https://api.example.com:65535/v1?region=eu&x=%20",
        "https://api.example.com/%E6%97%A5%E6%9C%AC?keyword=a&author=b&design=c",
        "HTTPS://API.Example.COM",
        "http://xn--wgv71a.example",
        "http://my_service:8080",
        "http://localhost",
        "http://[::1]:3000/prod",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:127.0.0.1]",
        "http://" + ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61]),  # 253 characters, the most that DNS has
    ],
)
def test_an_absolute_http_url_is_taken(url: str) -> None:
    assert require_base_url(url).geturl().lower() == url.lower()


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "api.example.com",
            "//api.example.com",
            "/path",
            "http:",
            "http:/h",
            "http:h",
            "http://",
            "http:///x",
        ),
        *("ftp://h", "file:///etc/passwd", "javascript:alert(1)", "http://:80", "http://?x", "http://."),
        *("http://h:0", "http://h:99999", "http://h:-1", "http://h:+80", "http://h:8o", "http://h:80:80"),
        *(
            "http://[::1",
            "http://::1",
            "http://[::1]x",
            "http://[::1]:x",
            "http://[abc]",
            "http://[v1.a]",
            "http://[]",
        ),
        *(
            "http://a..b",
            "http://.a",
            "http://-a",
            "http://a-",
            "http://a,b",
            "http://h;x",
            "http://*",
            "http://%41.com",
        ),
        *(
            "http://" + "a" * 64,
            "http://" + ".".join(["a" * 63] * 3 + ["b" * 62]),
            "http://$(id)",
            "http://a!b",
            "http://a=b",
        ),
    ],
)
def test_what_is_no_http_url_with_a_host_is_refused(url: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^url: must be like https://api.example.com or http://127.0.0.1:3000$"
    ):
        require_base_url(url)


@pytest.mark.parametrize(
    "url",
    [
        *(
            " http://h",
            "http://h ",
            "http://h\n",
            "http://h\r\nX: y",
            "http://h\t/x",
            "http://h/\x00",
            "http://h/\x7f",
        ),
        *(
            "http://h/a b",
            "http://h/{from}",
            "http://h/}",
            "http://h/<x>",
            'http://h/"',
            "http://h\\x",
            "http://h/^",
        ),
        *("http://h/|", "http://h/`", "http://h/#top", "http://h#", "http://h/%zz", "http://h/%", "http://h/%4"),
    ],
)
def test_characters_that_a_url_cannot_have_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^url: must be a URL without spaces.*percent-encode them$"):
        require_base_url(url)


@pytest.mark.parametrize(
    "url", ["http://日本.example", "http://h/日本", "http://ｈ", "http://h:８０", None, 5, b"http://h"]
)
def test_what_is_not_ascii_text_is_refused_with_the_remedy(url: object) -> None:
    with pytest.raises(InvalidInput, match=r"^AI_API_BASE_URL: must be a URL in ASCII; write other hosts as xn--"):
        require_base_url(url, "AI_API_BASE_URL")


@pytest.mark.parametrize(
    "url", ["http://user:hunter2@h", "http://user@h", "http://:hunter2@h", "http://@h", "http://a%40b:hunter2@h"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^url: must not contain a user or password") as refusal:
        require_base_url(url)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "name",
    [
        *("key", "apiKey", "api_key", "X-Api-Key", "token", "access_token", "client_secret", "password", "passwd"),
        *(
            "Signature",
            "X-Amz-Signature",
            "auth",
            "authorization",
            "credentials",
            "sessionid",
            "%74oken",
            "sig",
            "pwd",
            "to%6ben",
        ),
    ],
)
def test_a_query_parameter_that_looks_like_a_secret_is_refused_and_its_value_not_repeated(name: str) -> None:
    for refused in (
        lambda: require_base_url(f"http://h/?a=1&{name}=hunter2"),
        lambda: require_path(f"{DEFAULT_PATH}&{name}=hunter2"),
    ):
        with pytest.raises(
            InvalidInput, match="looks like a secret; send it as a header with env:NAME"
        ) as refusal:
            refused()
        assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("query", ["token", "a=1&token", "a=1&token="])
def test_a_secret_is_refused_by_its_name_alone(query: str) -> None:
    with pytest.raises(InvalidInput, match="looks like a secret"):
        require_base_url(f"http://h/?{query}")


@pytest.mark.parametrize(
    "path", [DEFAULT_PATH, "/{from}/{to}", "/a//b?t={to}&f={from}", "/%7Bfrom%7D?{from}-{to}", "/?a=?&{from}{to}"]
)
def test_a_path_that_names_the_window_once_is_taken(path: str) -> None:
    assert require_path(path) == path


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("x?from={from}&to={to}&k=hunter2", "must start with / and be ASCII"),
        ("", "must start with /"),
        ("http://evil.example/{from}/{to}", "must start with /"),
        ("/件数?from={from}&to={to}", "must start with / and be ASCII"),
        (None, "must start with /"),
        ("/a b?{from}{to}", "must not contain spaces"),
        ("/a\r\nHost: evil?{from}{to}", "must not contain spaces"),
        ("/a#{from}{to}", "must not contain spaces, #"),
        ("/a%2?{from}{to}", "percent-encode them"),
        ("/a\\b?{from}{to}", "percent-encode them"),
        ("/a?from={from}", r"must contain {from} and {to} once each and no other braces"),
        ("/a?{from}{to}{from}", "once each"),
        ("/a?{from}{to}{count}", "no other braces"),
        ("/a?{from}{to}{", "no other braces"),
        ("/a?{from}{to}{}", "no other braces"),
        ("/a?{{from}}{to}", "no other braces"),
        ("/a?{ from}{to}", "must not contain spaces"),
        ("/a?{FROM}{TO}&token=hunter2", "once each"),
    ],
)
def test_any_other_path_is_refused_and_not_repeated(path: object, problem: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_path(path)
    assert str(refusal.value).startswith("path: ")
    assert problem in str(refusal.value)
    assert "hunter2" not in str(refusal.value)

"""Where a request may go: base URLs and path templates, and what is refused without being quoted."""

from __future__ import annotations

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.requests.urls import join_url, require_base_url, require_path, require_target_url
from kizami.core.targets.target import DEFAULT_PATH


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
        with pytest.raises(InvalidInput, match=r"is a secret; write query = { .* } instead") as refusal:
            refused()
        assert "hunter2" not in str(refusal.value)


def test_the_remedy_for_a_secret_in_a_query_can_be_pasted() -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_path("/a?t={from}&api_key=hunter2")
    assert str(refusal.value) == (
        'path: query parameter api_key is a secret; write query = { api_key = "env:NAME" } instead'
    )
    with pytest.raises(InvalidInput, match=r'write query = { "api\.key" = "env:NAME" } instead'):
        require_path("/a?t={from}&api.key=hunter2")


@pytest.mark.parametrize("query", ["token", "a=1&token", "a=1&token="])
def test_a_secret_is_refused_by_its_name_alone(query: str) -> None:
    with pytest.raises(InvalidInput, match="query parameter token is a secret"):
        require_base_url(f"http://h/?{query}")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/hunter2", "the key of a Slack webhook"),
        ("https://api.telegram.org/bot123:hunter2", "the token of a Telegram bot"),
    ],
)
def test_a_secret_in_the_path_of_a_known_service_is_refused_and_not_repeated(url: str, words: str) -> None:
    for refused in (
        lambda: require_base_url(url),
        lambda: require_target_url(f"{url}/x?from={{from}}"),
    ):
        with pytest.raises(
            InvalidInput, match=f"^url: has {words} in it; only headers, query and auth"
        ) as refusal:
            refused()
        assert "hunter2" not in str(refusal.value)
    with pytest.raises(InvalidInput, match=r"^path: has the token of a Telegram bot in it") as refusal:
        require_path("/bot123:hunter2/getUpdates?from={from}")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1/accounts/5b9b1a0e-7c1d-4a52-9f6e-0d6c5f2f8a11/usage",
        "https://api.example.com/service/SU1Z0isxPaozGVKXdv0eY6/hits",
        "https://api.github.com/repos/octo/repo/hooks/12345678/deliveries",
    ],
)
def test_an_id_in_the_path_of_what_is_polled_is_no_secret(url: str) -> None:
    assert require_base_url(url).geturl() == url


@pytest.mark.parametrize(
    "name", ["startkey", "endkey", "page_token", "max_tokens", "next_token", "author", "keyword", "session_count"]
)
def test_a_name_that_only_has_a_secrets_in_it_is_taken(name: str) -> None:
    assert require_base_url(f"http://h/?{name}=1").query == f"{name}=1"
    assert require_path(f"{DEFAULT_PATH}&{name}=1") == f"{DEFAULT_PATH}&{name}=1"


@pytest.mark.parametrize(
    "path",
    [
        *(DEFAULT_PATH, "/{from}/{to}", "/a//b?t={to}&f={from}", "/%7Bfrom%7D?{from}-{to}", "/?a=?&{from}{to}"),
        *("", "/", "/a?from={from}", "/a?{from}{to}{from}", "/{from:%Y%m%d00}/{to-1s:unix}?x={from+2h:%d %H:%M}"),
        "/{from:%Y年}",
    ],
)
def test_a_path_may_have_times_in_any_form_any_number_of_times(path: str) -> None:
    assert require_path(path) == path


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("x?from={from}&to={to}&k=hunter2", "must start with / and be ASCII"),
        ("http://evil.example/{from}/{to}", "must start with /"),
        ("/件数?from={from}&to={to}", "must start with / and be ASCII"),
        (None, "must start with /"),
        ("/a b?{from}{to}", "must not contain spaces"),
        ("/a\r\nHost: evil?{from}{to}", "must not contain spaces"),
        ("/a#{from}{to}", "must not contain spaces, #"),
        ("/a%2?{from}{to}", "percent-encode them"),
        ("/a\\b?{from}{to}", "percent-encode them"),
        ("/a?{from}{to}{count}", "{count} is no time of the window; write {from} or {to}, like {from:unix}"),
        ("/a?{from}{to}{", "a brace is no time of the window; write {from} or {to}"),
        ("/a?{from}{to}}", "or %7B and %7D for other braces"),
        ("/a?{from}{to}{}", "is no time of the window"),
        ("/a?{{from}}{to}", "is no time of the window"),
        ("/a?{ from}{to}", "{ from} is no time of the window; write {from}, or"),
        ("/a?{FROM}{TO}&token=hunter2", "{FROM} is no time of the window; write {from}, or"),
        ('/a?{from}{hunter2"}', "a brace is no time of the window"),
        (
            "/a?q=a b&t={from}",
            'has a query that must be percent-encoded; or write it as query = { name = "value" }',
        ),
        ("/a?q=件&t={from}", "must start with / and be ASCII"),
        ("/a?{from}{to}&token=hunter2", "query parameter token is a secret"),
    ],
)
def test_any_other_path_is_refused_and_not_repeated(path: object, problem: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_path(path)
    assert str(refusal.value).startswith("path: ")
    assert problem in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "https://h:8443/v1/{from}?x=1&t={to:unix}",
        "http://[::1]:3000?t={from:%Y?%m}",
        "http://h/{from:%Y/%m/%d}",
    ],
)
def test_a_targets_url_may_have_times_in_its_path_and_query(url: str) -> None:
    require_target_url(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://{from}/", "must not have a time in its host; use one in the path, query or body"),
        ("http://h{from:%Y/%m}.example/", "must not have a time in its host"),
        ("http://h:{from:%H}/", "must not have a time in its host"),
        ("{from}://h/", "must be like https://api.example.com"),
        ("http://h/{form}", "{form} is no time of the window; write {from}"),
        ("http://h/?q=up{job='a'}&t={to}", 'or the query as query = { name = "value" }'),
        (
            "http://h/?q=a b&t={to}",
            'has a query that must be percent-encoded; or write it as query = { name = "value" }',
        ),
        ("http://h/?q=日本", "has a query that must be percent-encoded"),
        ("http://h/?t={to}&api_key=hunter2", 'is a secret; write query = { api_key = "env:NAME" } instead'),
        ("http://u:hunter2@h/{from}", "must not contain a user or password"),
        (None, "must be a URL in ASCII"),
    ],
)
def test_any_other_is_refused_and_not_repeated(url: object, problem: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_target_url(url)
    assert str(refusal.value).startswith("url: ")
    assert problem in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("base", "path", "joined"),
    [
        ("http://h", "", "http://h/"),
        ("http://h/v1/", "", "http://h/v1/"),
        ("http://h/v1/", "/x", "http://h/v1/x"),
        ("http://h/v1/?a=1", "/x?b=2", "http://h/v1/x?a=1&b=2"),
        ("http://h?a=1", "", "http://h/?a=1"),
    ],
)
def test_a_path_is_added_to_the_urls_own(base: str, path: str, joined: str) -> None:
    assert join_url(require_base_url(base), path) == joined

"""The request's URL, for any window and any base URL."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlsplit

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.collector import request_url
from kizami.core.slots import Window, parse_instant
from kizami.core.targets.target import Target
from samples.strategies import windows

_SEGMENTS = st.lists(st.text("abcXYZ019日本~!$&'()*+,;=:@ ?#%", max_size=6), max_size=4)
_PARAMETERS = st.lists(st.tuples(st.sampled_from("abcxyz"), st.text("a1 日+&=%?/", max_size=6)), max_size=3)


@st.composite
def base_urls(draw: st.DrawFn) -> str:
    scheme = draw(st.sampled_from(["http", "https", "HTTP", "HttpS"]))
    host = draw(
        st.sampled_from(
            ["h", "api.example.com", "API.Example.com.", "127.0.0.1", "[::1]", "my_service", "xn--wgv71a"]
        )
    )
    port = draw(st.sampled_from(["", ":", ":1", ":3000", ":65535"]))
    path = "".join("/" + quote(segment, safe="") for segment in draw(_SEGMENTS))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in draw(_PARAMETERS))
    return f"{scheme}://{host}{port}{path}" + draw(st.sampled_from(["", "/"])) + (f"?{query}" if query else "")


# **Feature: data-collection-scheduler, Property 3: API URL construction in ISO 8601 format**
@given(base=base_urls(), window=windows())
@settings(max_examples=200)
def test_property_3_request_url(base: str, window: Window) -> None:
    given_url, url = urlsplit(base), urlsplit(request_url(Target(url=base), window))
    assert (url.scheme, url.netloc) == (given_url.scheme, given_url.netloc)
    assert url.path == given_url.path.rstrip("/") + "/response_count"
    *others, start, end = parse_qsl(url.query, keep_blank_values=True)
    assert others == parse_qsl(given_url.query, keep_blank_values=True)
    assert (start[0], end[0]) == ("from", "to")
    assert Window(parse_instant(start[1]), parse_instant(end[1])) == window

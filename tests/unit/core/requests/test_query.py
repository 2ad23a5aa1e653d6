"""The query table: strings, numbers, booleans, arrays and references, and what is refused."""

from __future__ import annotations

import tomllib

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.requests.query import (
    Query,
    add_query,
    encode_query,
    literal_query,
    parse_query,
    require_query,
    secret_query,
)
from kizami.core.targets.references import SecretReference


def read(text: str) -> Query:
    query = parse_query(tomllib.loads(f"query = {text}")["query"])
    require_query(query)
    return query


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('"{from:unix}"', ("{from:unix}",)),
        ('""', ("",)),
        ("5", ("5",)),
        ("-2.5", ("-2.5",)),
        ("true", ("true",)),
        ('["a", 1, false]', ("a", "1", "false")),
        ('"env:KEY"', (SecretReference("env", "KEY"),)),
        ('["a", "ssm:/k"]', ("a", SecretReference("ssm", "/k"))),
        ('"ENV:KEY"', ("ENV:KEY",)),
    ],
)
def test_a_parameter_has_one_value_or_several(text: str, values: tuple[str, ...]) -> None:
    assert read(f"{{ a = {text} }}") == {"a": values}


def test_literals_keep_their_order_and_secrets_are_apart() -> None:
    query = read('{ b = 1, key = "env:K", "a[]" = ["x", "y"], more = "file:/m" }')
    assert literal_query(query) == [("b", "1"), ("a[]", "x"), ("a[]", "y")]
    assert secret_query(query) == (("key", SecretReference("env", "K")), ("more", SecretReference("file", "/m")))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("5", 'query: must be a table like { start = "{from:unix}", key = "env:API_KEY" }'),
        ("{ a = nan }", "query.a: must be a string, a number, true or false, or an array of those"),
        ("{ a = [[1]] }", "query.a: must be a string, a number, true or false, or an array of those"),
        ("{ a = { b = 1 } }", "query.a: must be a string, a number, true or false, or an array of those"),
        ("{ a = 2025-12-02 }", "query.a: must be a string, a number, true or false, or an array of those"),
        ("{ a = [] }", "query.a: must have at least one value"),
        ('{ "" = 1 }', "query.'': must have a name without control characters"),
        (r'{ "a\nb" = 1 }', r"query.'a\nb': must have a name without control characters"),
        (
            '{ api_key = "hunter2" }',
            'query.api_key: is a secret; write query = { api_key = "env:NAME" }, not the value itself',
        ),
        (
            '{ token = ["env:A", "hunter2"] }',
            'query.token: is a secret; write query = { token = "env:NAME" }, not',
        ),
        ('{ key = "env:hunter 2" }', "query.key: must name a variable after env: (letters, digits and _)"),
    ],
)
def test_anything_else_is_refused_at_its_place(text: str, line: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(text)
    assert str(refusal.value).startswith(line)
    assert "hunter" not in str(refusal.value)


def test_parameters_are_added_percent_encoded() -> None:
    query = encode_query([("a b", "c&d=é+/"), ("k", "")])
    assert query == "a%20b=c%26d%3D%C3%A9%2B%2F&k="
    assert add_query("http://h/x", query) == f"http://h/x?{query}"
    assert add_query("http://h/x?y", query) == f"http://h/x?y&{query}"
    assert add_query("http://h/x", "") == "http://h/x"

"""The JSON Schema of kizami.toml agrees with what kizami itself takes and refuses."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from house.tree import ROOT
from kizami.aggregation.schedule import COMPANY_SETTINGS, SCHEDULE_SETTINGS
from kizami.alerts.rules.maintenance import MAINTENANCE_SETTINGS
from kizami.alerts.rules.settings import ALERT_SETTINGS
from kizami.cli.verbs.init import TEMPLATE
from kizami.core.config import BACKUP_SETTINGS, parse_config
from kizami.core.errors import ConfigurationError
from kizami.core.slots import INTERVALS
from kizami.core.targets.hosts import HOST_SETTINGS
from kizami.core.targets.settings import TARGET_SETTINGS
from unit.alerts.rules.test_settings import URLS_WITH_SECRETS

MINIMAL = '[[targets]]\nname = "cpu"\nurl = "https://api.example.com"\n'
SHIPPED = resources.files("kizami.platform").joinpath("kizami.schema.json").read_text("utf-8")
SCHEMA = json.loads(SHIPPED)
VALIDATOR = Draft7Validator(SCHEMA)

# What only kizami itself can see: settings that depend on each other, and what no pattern can say.
BEYOND = (
    *("path must have a time", "lag 3 s is not a multiple", "lag 3600 s is not a multiple", "timeout nan"),
    *(
        "interval 5.0",
        "decimals 1.0",
        "require nan",
        "min must not be above max",
        "min 0.5 has more decimal places",
    ),
    *(
        "max must be from -9999999999999.99",
        "zero_if_missing /data is no part",
        "zero_if_missing header:X-Total is no part",
        "echo must not be true with format",
        "count must be left out",
    ),
    *("require must be left out with format", "refuse must be left out with format", "catch_up must be longer"),
    *("keep must be at least a day", "keep_totals needs keep"),
    *("body {from:unixms}", "method HEAD cannot have a body", "method HEAD gets no body"),
)


def faults(document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in VALIDATOR.iter_errors(document)]


def refused_settings() -> list[tuple[str, str, str]]:
    """Those of the target's own test."""
    from unit.core.targets.test_target import TestRefusedSettings

    (mark,) = TestRefusedSettings.test_a_bad_value_is_refused_at_its_place.pytestmark  # type: ignore[attr-defined]
    return [refused for refused in mark.args[1] if len(refused[1]) < 1000]  # Python shows no number that long


def tables(schema: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], list[str]]]:
    """Every table that may have only certain settings: its path in a file, and those settings."""
    if "$ref" in schema:
        schema = {**SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]}
    if schema.get("additionalProperties") is False:
        yield path, list(schema["properties"])
    for name, each in schema.get("properties", {}).items():
        yield from tables(each, (*path, name))
    for each in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
        yield from tables(each, path)
    if isinstance(schema.get("items"), dict):
        yield from tables(schema["items"], (*path, 0))


def toml(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {toml(each)}" for name, each in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def with_setting(path: tuple[str | int, ...], name: str, value: Any = "x") -> str:
    """A file whose table at `path` has a setting of that name, and nothing else that is wrong."""
    inner: Any = BESIDE.get(path, {}) | {name: value}
    for step in reversed(path):
        inner = [inner] if isinstance(step, int) else {step: inner}
    if path[:1] == ("targets",):
        inner["targets"][0] = {"name": "cpu", "url": "https://api.example.com"} | inner["targets"][0]
        return f"targets = {toml(inner['targets'])}\n"
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in inner.items()) + MINIMAL


# What the other settings of a table need beside them.
BESIDE: dict[tuple[str | int, ...], dict[str, Any]] = {
    ("alerts", 0): {"to": "env:A"},
    ("aggregation",): {"companies": [{"id": "a"}]},
    ("aggregation", "companies", 0): {"id": "a"},
    ("backup",): {"every": "1d"},
    ("hosts", 0): {"host": "api.example.com", "requests": "600/1m"},
    ("maintenance", 0): {"weekly": "Sun 02:00-04:00"},
    ("targets", 0, "auth", "oauth2"): {
        "token_url": "https://a.example/t",
        "client_id": "a",
        "client_secret": "env:A",
    },
}
WRONG: list[Any] = [
    "",
    "x",
    "a b",
    "env:",
    "\0",
    "\n",
    0,
    -1,
    10**20,
    1.5,
    True,
    [],
    [1],
    [[]],
    [{}],
    {},
    {"a": 1},
    {"": ""},
]

MISSPELT = [(path, name) for path, names in tables(SCHEMA) for name in names]


@pytest.mark.parametrize(("path", "name"), MISSPELT)
def test_a_misspelt_setting_of_any_table_is_refused_with_the_one_that_was_meant(
    path: tuple[str | int, ...], name: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_config(with_setting(path, name + name[-1]))
    where, _, problem = str(refused.value).rpartition(f"{name}{name[-1]}: ")
    assert where.startswith("kizami.toml: ")
    assert re.fullmatch(rf"is not a (table or )?setting; did you mean \[*{name}\]*\?", problem), problem


@pytest.mark.parametrize(("path", "name"), MISSPELT)
def test_a_setting_with_a_wrong_value_is_one_line_that_names_it(path: tuple[str | int, ...], name: str) -> None:
    if path:
        assert any(refusal(with_setting(path, name, value)) for value in WRONG)
    for value in WRONG:
        line = refusal(
            with_setting(path, name, value) if path or name != "targets" else f"targets = {toml(value)}"
        )
        assert line == "" or (line.startswith("kizami.toml: ") and "\n" not in line and name in line), line


def refusal(file: str) -> str:
    """The line that refuses the file; nothing if it is taken."""
    try:
        parse_config(file)
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("path", dict(tables(SCHEMA)))
def test_a_setting_like_none_is_refused_with_those_there_are(path: tuple[str | int, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"zq.7: is not a (table or )?setting; known: .*"):
        parse_config(with_setting(path, "zq_7"))


def test_the_misspelt_settings_are_of_every_table() -> None:
    places = {".".join(map(str, path)) for path, _ in MISSPELT}
    assert places >= {"", "targets.0", "targets.0.auth", "targets.0.auth.oauth2", "targets.0.tls", "alerts.0"}
    assert places >= {"backup", "aggregation", "aggregation.companies.0", "maintenance.0"}


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ('[[target]]\nname = "a"', "target: is not a table or setting; did you mean [[targets]]?"),
        ('[targets]\nname = "a"', "targets: must be tables: write [[targets]], in double brackets"),
        ("targets = [1]", "targets: must be tables: write [[targets]], in double brackets"),
        ('targets = "a"', "targets: must be tables: write [[targets]], in double brackets"),
        ('name = "a"\nurl = "http://a"', "name: is a setting of a target: write it below a line [[targets]]"),
        (MINIMAL + "[alert]", "alert: is not a table or setting; did you mean [[alerts]]?"),
        (MINIMAL + "[alerts]", "alerts: must be tables: write [[alerts]], in double brackets"),
        (MINIMAL + "[hosts]", "hosts: must be tables: write [[hosts]], in double brackets"),
        (MINIMAL + "[maintenance]", "maintenance: must be tables: write [[maintenance]], in double brackets"),
        (MINIMAL + "[[backup]]", "backup: must be one table: write [backup], in single brackets"),
        (MINIMAL + "[[aggregation]]", "aggregation: must be one table: write [aggregation], in single brackets"),
        (
            MINIMAL + "[aggregation.companies]",
            "aggregation.companies: must be tables: write [[aggregation.companies]], in double brackets",
        ),
        (
            MINIMAL + 'language = "ja"',
            "targets[0]: language: stands at the head of the file, before the first table",
        ),
    ],
)
def test_a_table_that_is_written_wrongly_is_refused_with_the_right_way(file: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_config(file)
    assert str(refused.value) == f"kizami.toml: {words}"


def whole(example: str) -> str:
    """An example of the documents as a file: what has no table of its own belongs to a target."""
    if re.search(r"^\[", example, re.MULTILINE) is None:
        return MINIMAL + "\n".join(line for line in example.splitlines() if not line.startswith(("name ", "url ")))
    return example if "[[targets]]" in example else MINIMAL + example


def documented() -> list[str]:
    pages = [ROOT / "README.md", ROOT / "README.ja.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = (
        re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL) for page in pages
    )
    return [example for examples in found for example in examples]


def recipes() -> list[Path]:
    return sorted((ROOT / "src/kizami/recipes").glob("*.toml"))


def test_it_is_a_schema_and_the_one_in_the_documents() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert (ROOT / "docs/kizami.schema.json").read_text("utf-8") == SHIPPED, "make schema"


def test_it_knows_every_setting_and_no_other() -> None:
    tables = SCHEMA["properties"]
    with pytest.raises(ConfigurationError) as refused:
        parse_config("colour = 1\n" + MINIMAL)
    assert re.sub(r"[][]", "", str(refused.value)).endswith(f"known: {', '.join(tables)}")
    assert list(SCHEMA["definitions"]["target"]["properties"]) == list(TARGET_SETTINGS)
    assert list(tables["aggregation"]["properties"]) == list(SCHEDULE_SETTINGS)
    assert list(tables["backup"]["properties"]) == list(BACKUP_SETTINGS)
    assert list(tables["hosts"]["items"]["properties"]) == list(HOST_SETTINGS)
    assert list(tables["alerts"]["items"]["properties"]) == list(ALERT_SETTINGS)
    assert list(tables["maintenance"]["items"]["properties"]) == list(MAINTENANCE_SETTINGS)
    company = tables["aggregation"]["properties"]["companies"]["items"]
    assert list(company["properties"]) == list(COMPANY_SETTINGS)
    assert all("description" in each for each in SCHEMA["definitions"]["target"]["properties"].values())


@pytest.mark.parametrize("example", documented())
def test_every_example_of_the_documents_passes(example: str) -> None:
    assert faults(tomllib.loads(whole(example))) == []


@pytest.mark.parametrize("recipe", recipes(), ids=lambda path: path.stem)
def test_every_recipe_passes(recipe: Path) -> None:
    assert faults(tomllib.loads(recipe.read_text("utf-8"))) == []


def test_what_init_writes_passes_with_every_setting_switched_on() -> None:
    assert faults(tomllib.loads(TEMPLATE)) == []
    assert faults(tomllib.loads(re.sub(r"^# (?=\w+ = |\[)", "", TEMPLATE, flags=re.MULTILINE))) == []


@pytest.mark.parametrize(("setting", "value", "problem"), refused_settings())
def test_what_kizami_refuses_is_refused_as_far_as_a_schema_can_see_it(
    setting: str, value: str, problem: str
) -> None:
    found = faults(tomllib.loads(f"{MINIMAL}{setting} = {value}"))
    assert bool(found) is not f"{setting} {problem}".startswith(BEYOND)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "colour = 1\n" + MINIMAL,
        MINIMAL + "retries = 3",
        MINIMAL + 'headers = { Authorization = "Bearer hunter2" }',
        MINIMAL + 'headers = { x-api-KEY = "hunter2" }',
        MINIMAL + 'headers = { HOST = "env:A" }',
        MINIMAL + 'headers = { "A B" = "x" }',
        MINIMAL + 'query = { api_key = "hunter2", t = "{from}" }',
        MINIMAL + 'auth = { bearer = "hunter2" }',
        MINIMAL + 'auth = { bearer = "env:A", basic = ["a", "env:B"] }',
        MINIMAL + 'tls = { key = "a.pem" }',
        MINIMAL + 'proxy = "http://me:hunter2@proxy:1"',
        MINIMAL.replace("cpu", "a b"),
        MINIMAL.replace("https://", ""),
        MINIMAL + '[[hosts]]\nhost = "api.example.com"',
        MINIMAL + '[[hosts]]\nrequests = "60/1m"',
        MINIMAL + '[[hosts]]\nhost = "api.example.com"\nrequests = 60',
        MINIMAL + '[[hosts]]\nhost = "api.example.com"\nrequests = "0/1m"',
        MINIMAL + '[[hosts]]\nhost = "api.example.com"\nrequests = "600/2d"',
        MINIMAL + '[[hosts]]\nhost = "api.example.com"\nrequests = "100001/1d"',
        MINIMAL + '[[hosts]]\nhost = "api.example.com"\nrequests = "600/1m"\nburst = 1',
        MINIMAL + "[backup]\nkeep = 3",
        MINIMAL + '[backup]\nevery = "often"',
        MINIMAL + '[backup]\nevery = "1d"\nkeep = 0',
        MINIMAL + '[backup]\nevery = "1d"\ndirectory = ""',
        MINIMAL + '[backup]\nevery = "1d"\nwhere = "a"',
        MINIMAL + '[aggregation]\nevery = "25h"\ncompanies = [{ id = "a" }]',
        MINIMAL + '[aggregation]\ncompanies = [{ id = "a", key = "hunter2" }]',
        MINIMAL + '[[alerts]]\nto = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"',
        MINIMAL + '[[alerts]]\nto = "http://example.com/hook"',
        *(MINIMAL + f'[[alerts]]\nto = "{url}"' for url, *_ in URLS_WITH_SECRETS if "%" not in url),
        *(f'heartbeat = "{url}"\n' + MINIMAL for url, *_ in URLS_WITH_SECRETS if "%" not in url),
        MINIMAL + '[[alerts]]\nto = "env:A"\nwhen = ["fials"]',
        MINIMAL + '[[alerts]]\nto = "env:A"\nwhen = ["sum of 10m zero for 1h"]',
        MINIMAL + '[[alerts]]\nto = "env:A"\nsecret = "hunter2"',
        MINIMAL + '[[alerts]]\nto = "env:A"\nwhom = 1',
        MINIMAL + '[[maintenance]]\nweekly = "Sunday"',
        MINIMAL + '[[maintenance]]\nfrom = "2025-12-02T10:00:00Z"',
        'language = "de"\n' + MINIMAL,
        'heartbeat = "http://example.com"\n' + MINIMAL,
    ],
)
def test_other_mistakes_that_kizami_refuses_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_config(text)
    assert faults(tomllib.loads(text))


@pytest.mark.parametrize("seconds", INTERVALS)
def test_every_interval_passes_in_every_unit(seconds: int) -> None:
    written: list[object] = [seconds, f"{seconds}s", f"0{seconds}s"]
    written += [
        f"{seconds // size}{unit}" for size, unit in ((60, "m"), (3600, "h"), (86_400, "d")) if not seconds % size
    ]
    for interval in written:
        assert faults({"targets": [{"name": "a", "url": "http://h", "interval": interval}]}) == []

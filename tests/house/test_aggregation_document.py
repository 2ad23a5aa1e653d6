"""docs/aggregation.md says what the batch does: its log codes, its signature, its limits."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from kizami.aggregation.batch import CHUNK_USERS, RESERVE_SECONDS
from kizami.aggregation.log_codes import LogCode
from kizami.aggregation.schedule import COMPANY_SETTINGS, SCHEDULE_SETTINGS
from kizami.aggregation.signing import ApiKey, sign
from kizami.aggregation.stores.company_table import LOCK_ATTRIBUTES
from kizami.aggregation.stores.points_table import GRANTED_AT_ONCE

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = (DOCS / "aggregation.md").read_text("utf-8")


def test_the_table_of_log_codes_has_every_code_with_its_level_and_wording_and_a_remedy() -> None:
    rows = re.findall(r"^\| (AGGREGATION-\d+) \| (\w+) \| `(.*)` \| (.+) \|$", DOCUMENT, re.MULTILINE)
    written = {code: (level, f"{code} {wording}") for code, level, wording, _ in rows}
    assert written == {code.code: (logging.getLevelName(code.level), code.template) for code in LogCode}
    assert len(rows) == len(LogCode)


def test_every_code_stands_in_the_sequence_or_among_the_endings() -> None:
    diagram = DOCUMENT.partition("```mermaid")[2].partition("```")[0]
    endings = DOCUMENT.partition("A run ends in one of these ways")[2].partition("## ")[0]
    for code in LogCode:
        assert code.code[-3:] in diagram + endings


def test_the_worked_example_is_right() -> None:
    assert f"SHA2-256(stdin)= {sign(ApiKey('mock-aggregation-key'), 1764644400, 'acme')}\n" in DOCUMENT


def test_the_numbers_are_those_of_the_source() -> None:
    assert f"{GRANTED_AT_ONCE} at once, {CHUNK_USERS} users between" in DOCUMENT
    assert f"With less than {RESERVE_SECONDS:g} seconds left" in DOCUMENT
    for attribute in LOCK_ATTRIBUTES:
        assert f"| `{attribute}` |" in DOCUMENT


def test_every_setting_of_the_schedule_is_described() -> None:
    section = (DOCS / "configuration.md").read_text("utf-8").partition("## Aggregation\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == [*SCHEDULE_SETTINGS, *COMPANY_SETTINGS]


def test_every_property_of_the_batch_is_in_the_table_with_its_text() -> None:
    table = (DOCS / "properties.md").read_text("utf-8").partition("## Of the aggregation batch\n")[2]
    written = dict(re.findall(r"^\| (A\d+) \| (.+?) \|", table, re.MULTILINE))
    found: dict[str, str] = {}
    for path in (DOCS.parent / "tests").rglob("test_*.py"):
        text = path.read_text("utf-8").replace("\n# ", " ")
        found.update(re.findall(r"\*\*Feature: aggregation-batch, Property (A\d+): (.+?)\*\*", text))
    assert found == written

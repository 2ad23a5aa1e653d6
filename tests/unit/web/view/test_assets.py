"""A page names every module of its script: none is found only when another one has come."""

from __future__ import annotations

import re

import pytest

from kizami.web.view.assets import assets, modules_of


@pytest.mark.parametrize("script", ["wall.js", "target.js", "calendar.js"])
def test_the_modules_of_a_script_are_all_that_it_and_they_import(script: str) -> None:
    named = {script, *modules_of(script)}
    for module in named:
        text = assets()[module].decode()
        imported = set(re.findall(r'from "\./(.+?)"|^import "\./(.+?)"', text, re.MULTILINE))
        assert {one or other for one, other in imported} <= named
    assert len(modules_of(script)) == len(named) - 1

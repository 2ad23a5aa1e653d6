"""recipes, and init --recipe: ready-made targets, listed, shown and written."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kizami.cli.exit_codes import FAILURE, OK, USAGE
from kizami.cli.recipe_names import complete_recipe
from kizami.cli.verbs.recipes import command
from kizami.recipes.catalogue import read_recipe, recipe_names
from programs.command import Command


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(capsys)


def test_they_are_listed_with_what_they_poll(kizami: Command) -> None:
    found = kizami("recipes")
    assert found.code == OK
    assert [line.split()[0] for line in found.out.splitlines()] == ["recipe", *recipe_names()]
    assert "Stripe: charges" in found.out
    assert "`kizami init --recipe NAME` writes one" in found.err


def test_json_has_their_heads(kizami: Command) -> None:
    recipes = kizami("recipes", "--json").json["recipes"]
    assert [recipe["name"] for recipe in recipes] == recipe_names()
    assert {"name", "title", "counts", "fillIn", "documentation"} == set(recipes[0])


def test_one_is_shown_as_it_would_be_written(kizami: Command) -> None:
    assert kizami("recipes", "stripe").out == read_recipe("stripe").text
    shown = kizami("recipes", "stripe", "--json").json
    assert shown["toml"] == read_recipe("stripe").text
    assert shown["documentation"].startswith("https://docs.stripe.com/")


@pytest.mark.parametrize(
    ("arguments", "place"), [(("recipes", "strip"), "NAME"), (("init", "--recipe", "Stripe"), "--recipe")]
)
def test_a_name_that_is_none_gets_one_that_is_near(
    kizami: Command, arguments: tuple[str, ...], place: str
) -> None:
    found = kizami(*arguments)
    problem = f"'{arguments[-1]}' is not a recipe; did you mean stripe? `kizami recipes` lists all"
    line = f"kizami: {place}: {problem}\n"
    assert (found.code, found.out, found.err) == (USAGE, "", line)
    assert not Path("kizami.toml").exists()


def test_a_name_that_is_near_none_leads_to_the_list(kizami: Command) -> None:
    for name in ("../x", "nosuch"):
        assert (
            kizami("recipes", name).err == f"kizami: NAME: {name!r} is not a recipe; `kizami recipes` lists all\n"
        )


def test_init_writes_one_and_says_what_to_fill_in(kizami: Command) -> None:
    found = kizami("init", "--recipe", "stripe")
    assert (found.code, found.out) == (OK, "")
    assert Path("kizami.toml").read_text("utf-8") == read_recipe("stripe").text
    assert found.err.splitlines()[0] == "kizami: to fill in: STRIPE_KEY, a restricted key that may read charges."


def test_init_leaves_a_file_that_is_there(kizami: Command) -> None:
    Path("kizami.toml").write_text("mine")
    assert kizami("init", "--recipe", "stripe").code == FAILURE
    assert Path("kizami.toml").read_text() == "mine"
    assert kizami("init", "--recipe", "stripe", "--force").code == OK


def test_names_are_completed() -> None:
    context = click.Context(command)
    assert complete_recipe(context, command.params[0], "githu") == [
        "github",
        "github-actions",
        "github-repository",
    ]

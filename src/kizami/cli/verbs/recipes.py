"""`kizami recipes`: ready-made targets, listed or shown."""

from __future__ import annotations

import click

from kizami.cli.recipe_names import complete_recipe, find_recipe
from kizami.cli.terminal.printing import json_option, plural, print_json, say
from kizami.cli.terminal.tables import print_table
from kizami.recipes.catalogue import Recipe, read_recipe, recipe_names

_COLUMNS = (("recipe", False), ("what it polls", False))


@click.command(short_help="List ready-made targets, or show one.")
@click.argument("name", required=False, shell_complete=complete_recipe)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List ready-made targets for services and servers, or show the one called NAME.

    `kizami init --recipe NAME` writes it to a new kizami.toml, and `kizami recipes NAME >> kizami.toml` adds it
    to one that is there.
    """
    if name is not None:
        _show(find_recipe(name), as_json)
        return
    recipes = [read_recipe(known) for known in recipe_names()]
    if as_json:
        print_json({"recipes": [recipe_fields(recipe) for recipe in recipes]})
    else:
        print_table(_COLUMNS, [[recipe.name, recipe.title] for recipe in recipes])
    say(f"{plural(len(recipes), 'recipe')}; `kizami init --recipe NAME` writes one")


def _show(recipe: Recipe, as_json: bool) -> None:
    if as_json:
        print_json({**recipe_fields(recipe), "toml": recipe.text})
    else:
        click.echo(recipe.text, nl=False)


def recipe_fields(recipe: Recipe) -> dict[str, str]:
    """What a recipe's head says, in JSON."""
    return {
        "name": recipe.name,
        "title": recipe.title,
        "counts": recipe.counts,
        "fillIn": recipe.fill_in,
        "documentation": recipe.documentation,
    }

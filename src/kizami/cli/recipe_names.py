"""Recipes as the command line names them: found, suggested, and completed by the shell."""

from __future__ import annotations

import click

from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten
from kizami.recipes.catalogue import Recipe, read_recipe, recipe_names


def complete_recipe(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What the shell may offer for `incomplete`."""
    return [name for name in recipe_names() if name.startswith(incomplete)]


def find_recipe(name: str) -> Recipe:
    """The recipe of that name, else InvalidInput with those that are near."""
    if name in recipe_names():
        return read_recipe(name)
    raise InvalidInput("NAME", f"{shorten(name)} is not a recipe; {_suggestion(name)}")


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), recipe_names(), n=3)
    return f"did you mean {', '.join(near)}?" if near else "`kizami recipes` lists them"

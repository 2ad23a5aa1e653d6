"""Recipes as the command line names them: found, suggested, and completed by the shell."""

from __future__ import annotations

import click

from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten
from kizami.core.targets.unknown_names import near_names
from kizami.recipes.catalogue import Recipe, read_recipe, recipe_names


def complete_recipe(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What the shell may offer for `incomplete`."""
    return [name for name in recipe_names() if name.startswith(incomplete)]


def find_recipe(name: str, place: str = "NAME") -> Recipe:
    """The recipe of that name, else InvalidInput with those that are near."""
    if name in recipe_names():
        return read_recipe(name)
    near = near_names(name, recipe_names(), 3)
    raise InvalidInput(
        place, f"{shorten(name)} is not a recipe; {near} `kizami recipes` lists all".replace("  ", " ")
    )

"""The recipes by name, each with what the comment at the head of its file says."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

_FILL_IN = "Fill in: "


@dataclass(frozen=True, slots=True)
class Recipe:
    """A ready-made target: its file, and what the comment at its head says."""

    name: str
    title: str
    counts: str
    fill_in: str
    documentation: str
    text: str


def recipe_names() -> list[str]:
    """The names of all recipes, in order."""
    files = (entry.name for entry in resources.files(__package__).iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def read_recipe(name: str) -> Recipe:
    """The recipe of that name, which must be one of `recipe_names`."""
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return parse_recipe(name, text)


def parse_recipe(name: str, text: str) -> Recipe:
    """The recipe that the file `text` is: title first, link last, what to fill in between."""
    title, *words, documentation = (line.removeprefix("#").strip() for line in _head(text))
    counts, _, fill_in = " ".join(words).partition(_FILL_IN)
    return Recipe(name, title, counts.strip(), fill_in, documentation, text)


def _head(text: str) -> list[str]:
    return text.partition("\n\n")[0].splitlines()

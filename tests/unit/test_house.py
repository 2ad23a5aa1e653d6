"""The rules of the house hold for this repository (`test_house_rules.py` shows that each one can find a fault)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

import click

from conftest import skip_for_lack_of
from house import documents, imports, properties, texts
from house.tree import ROOT, Fault, tracked_files
from kizami.cli import main as command_line
from kizami.targets import TARGET_SETTINGS


def assert_none(faults: Iterable[Fault]) -> None:
    lines = [str(fault) for fault in faults]
    assert not lines, "\n" + "\n".join(lines)


def document(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def options_of_verbs() -> dict[str, list[str]]:
    """Every verb with the long form of its options and those of its own verbs."""
    group = command_line.kizami
    context = click.Context(group)
    assert isinstance(group, click.Group)
    return {verb: sorted(options(group.get_command(context, verb))) for verb in command_line.VERBS}


def options(command: click.Command | None) -> set[str]:
    assert command is not None
    own = {max(parameter.opts, key=len) for parameter in command.params if isinstance(parameter, click.Option)}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*(options(verb) for verb in inner))


def exit_codes() -> dict[str, int]:
    names = ("OK", "FAILURE", "USAGE", "CONFIGURATION", "UNREACHABLE", "CHECK_FAILED", "INTERRUPTED")
    return {name: getattr(command_line, name) for name in names}


class TestThisHouse:
    def test_imports_follow_its_direction(self) -> None:
        assert_none(imports.against_the_direction(ROOT))

    def test_the_core_is_pure(self) -> None:
        assert_none(imports.impure(ROOT))

    def test_what_a_lambda_imports_is_in_its_runtime(self) -> None:
        assert_none(imports.too_heavy_for_a_lambda(ROOT))

    def test_every_verb_and_option_is_documented(self) -> None:
        assert_none(documents.undocumented_verbs(document(documents.CLI), options_of_verbs()))

    def test_every_exit_code_is_documented(self) -> None:
        assert_none(documents.undocumented_exit_codes(document(documents.CLI), exit_codes()))

    def test_every_environment_variable_is_documented(self) -> None:
        assert_none(documents.undocumented_variables(document(documents.CONFIGURATION), documents.variables(ROOT)))

    def test_every_setting_is_documented(self) -> None:
        assert_none(documents.undocumented_settings(document(documents.CONFIGURATION), TARGET_SETTINGS))

    def test_links_lead_somewhere(self) -> None:
        assert_none(documents.dead_links(ROOT))

    def test_the_properties_are_annotated_as_they_are_listed(self) -> None:
        assert_none(properties.property_faults(ROOT))

    def test_nothing_unwanted_stands_in_its_files(self) -> None:
        try:
            files = list(tracked_files(ROOT))
        except (OSError, subprocess.CalledProcessError):
            skip_for_lack_of("git and a clone", "install git and `git clone` the repository")
        assert_none(texts.unwanted_words(ROOT, files))

    def test_its_modules_can_be_read(self) -> None:
        assert_none(texts.unreadable_modules(ROOT))

    def test_its_requirements_are_pinned_with_hashes(self) -> None:
        assert_none(texts.loose_requirements(ROOT))

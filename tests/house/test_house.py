"""The rules of the house hold for this repository (`test_rules.py` shows that each one can find a fault)."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterable, Iterator
from pkgutil import resolve_name

import click

from conftest import skip_for_lack_of
from house import (
    database_file,
    documents,
    events,
    glossary,
    imports,
    mirror,
    properties,
    rooms,
    texts,
    translations,
)
from house.tree import ROOT, Fault, tracked_files
from kizami.aggregation.log_codes import LogCode
from kizami.cli import exit_codes
from kizami.cli import main as command_line
from kizami.core.targets.settings import TARGET_SETTINGS


def assert_none(faults: Iterable[Fault]) -> None:
    lines = [str(fault) for fault in faults]
    assert not lines, "\n" + "\n".join(lines)


def document(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def verb_command(verb: str) -> click.Command:
    group = command_line.kizami
    assert isinstance(group, click.Group)
    command = group.get_command(click.Context(group), verb)
    assert command is not None
    return command


def parameters(command: click.Command) -> Iterator[click.Parameter]:
    """Those of a verb and of the verbs within it."""
    yield from command.params
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from parameters(inner)


def options_of_verbs() -> dict[str, set[str]]:
    """Every verb with the long form of its options."""
    return {
        verb: {max(one.opts, key=len) for one in parameters(verb_command(verb)) if isinstance(one, click.Option)}
        for verb in command_line.VERBS
    }


def variables_of_options() -> dict[str, tuple[str, int]]:
    """The environment variables that Click reads for options, also where their names are put together."""
    named = {}
    for verb in command_line.VERBS:
        for parameter in parameters(verb_command(verb)):
            given = parameter.envvar or ()
            for name in [given] if isinstance(given, str) else given:
                named[name] = (f"src/kizami/cli/verbs/{verb.replace('-', '_')}.py", 1)
    return named


def levels_of_events() -> dict[str, set[str]]:
    """Every event with its levels, also those of the batch, which have a table of their own in the source."""
    coded = {code.event: {logging.getLevelName(code.level)} for code in LogCode}
    return events.levels_of_events(ROOT) | coded


class TestThisHouse:
    def test_imports_follow_its_direction(self) -> None:
        assert_none(imports.against_the_direction(ROOT))

    def test_the_core_is_pure(self) -> None:
        assert_none(imports.impure(ROOT))

    def test_what_a_lambda_imports_is_in_its_runtime(self) -> None:
        assert_none(imports.too_heavy_for_a_lambda(ROOT))

    def test_its_unit_tests_stand_where_their_modules_stand(self) -> None:
        assert_none(mirror.unit_tests_out_of_place(ROOT))

    def test_nobody_but_sqlite_opens_the_database(self) -> None:
        assert_none(database_file.opened_beside_sqlite(ROOT))

    def test_every_verb_and_option_is_documented(self) -> None:
        assert_none(documents.undocumented_verbs(document(documents.CLI), options_of_verbs()))

    def test_every_exit_code_is_documented(self) -> None:
        codes = {name: code for name, code in vars(exit_codes).items() if name.isupper()}
        assert_none(documents.undocumented_exit_codes(document(documents.CLI), codes))

    def test_every_environment_variable_is_documented(self) -> None:
        named = documents.variables(ROOT) | variables_of_options()
        assert_none(documents.undocumented_variables(document(documents.CONFIGURATION), named))

    def test_every_setting_is_documented(self) -> None:
        settings = documents.settings(ROOT)
        assert settings > set(TARGET_SETTINGS)
        assert_none(documents.undocumented_settings(document(documents.CONFIGURATION), settings))

    def test_every_log_line_has_an_event(self) -> None:
        assert_none(events.nameless_lines(ROOT))

    def test_every_event_is_documented_with_its_level(self) -> None:
        assert_none(events.undocumented_events(document(events.OPERATIONS), levels_of_events()))

    def test_logs_are_filtered_by_events_that_there_are(self) -> None:
        assert_none(events.blind_filters(ROOT, levels_of_events()))

    def test_links_lead_somewhere(self) -> None:
        assert_none(documents.dead_links(ROOT))

    def test_paths_and_modules_in_the_documents_are_there(self) -> None:
        assert_none(documents.stale_paths(ROOT))

    def test_no_room_is_crowded(self) -> None:
        assert_none(rooms.crowded(ROOT))

    def test_the_map_of_each_room_names_all_that_is_in_it(self) -> None:
        assert_none(rooms.unmapped(ROOT))

    def test_the_architecture_shows_every_room(self) -> None:
        assert_none(rooms.misdrawn(ROOT))

    def test_no_two_classes_have_one_name(self) -> None:
        assert_none(rooms.repeated_classes(ROOT))

    def test_handlers_are_where_others_look_for_them(self) -> None:
        assert_none(rooms.lost_handlers(ROOT))
        assert all(callable(resolve_name(handler)) for handler in rooms.HANDLERS)

    def test_the_glossary_says_what_the_page_says(self) -> None:
        assert_none(glossary.other_words(ROOT))

    def test_the_japanese_documents_follow_the_english_ones(self) -> None:
        assert len(list(translations.pairs(ROOT))) > 1
        assert_none(translations.drifted(ROOT))

    def test_every_page_of_the_documents_is_in_their_index(self) -> None:
        assert_none(documents.unlisted_pages(ROOT))

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

    def test_its_values_are_frozen(self) -> None:
        assert_none(texts.thawed_values(ROOT))

    def test_its_requirements_are_pinned_with_hashes(self) -> None:
        assert_none(texts.loose_requirements(ROOT))

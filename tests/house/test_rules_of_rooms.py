"""Each rule about rooms, maps and documents finds the fault it is there for, and leaves a house in order alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from house import documents, glossary, rooms

Build = Callable[[dict[str, str]], Path]

MAP = '"""A map: a_1 ─▶ b/, sender."""\n'


class TestRooms:
    @pytest.mark.parametrize(
        ("folder", "count", "faults"), [("local", 50, 0), ("local", 51, 1), ("cli/verbs", 30, 0)]
    )
    def test_a_package_with_too_many_modules_is_found(
        self, build: Build, folder: str, count: int, faults: int
    ) -> None:
        names = ["__init__", "conftest", "test_x", *(f"module_{n}" for n in range(count))]
        found = rooms.crowded(build({f"src/kizami/{folder}/{name}.py": "" for name in names}))
        assert [fault.path for fault in found] == [f"src/kizami/{folder}/__init__.py"] * faults

    @pytest.mark.parametrize(
        ("file", "name"),
        [
            ("src/kizami/collector.py", "collector"),
            ("src/kizami/a.py", "a"),
            ("src/kizami/engine/__init__.py", "engine"),
            ("tests/fakes/ports.py", "ports"),
        ],
    )
    def test_what_the_map_does_not_name_is_found(self, build: Build, file: str, name: str) -> None:
        maps = {"src/kizami/__init__.py": MAP, "tests/fakes/__init__.py": '"""No port here."""\n'}
        (fault,) = rooms.unmapped(build({**maps, file: ""}))
        assert fault.problem == f"the map does not name {name}"

    def test_what_it_names_or_pytest_finds_is_not(self, build: Build) -> None:
        files = ("a_1.py", "b/__init__.py", "sender.py", "conftest.py", "test_sender.py", "no_package/c.py")
        root = build({"src/kizami/__init__.py": MAP, **{f"src/kizami/{file}": "" for file in files}})
        assert rooms.unmapped(root) == []

    def test_a_package_without_a_map_is_found(self, build: Build) -> None:
        root = build({"infra/__init__.py": "x = 1\n", "infra/app.py": ""})
        assert [fault.problem for fault in rooms.unmapped(root)] == ["the map does not name app"]

    def test_a_tree_that_leaves_a_room_out_or_has_one_too_many_is_found(self, build: Build) -> None:
        tree = "    src/kizami/\n      core/    decides\n        gone/  is no more\n    infra/   deploys\n"
        packages = ("src/kizami", "src/kizami/core", "src/kizami/backend", "infra")
        root = build({"docs/architecture.md": tree, **{f"{package}/__init__.py": "" for package in packages}})
        assert [fault.problem for fault in rooms.misdrawn(root)] == [
            "the tree of rooms leaves out src/kizami/backend",
            "there is no src/kizami/core/gone (any more)",
        ]

    def test_two_classes_of_one_name_are_found(self, build: Build) -> None:
        root = build(
            {"src/kizami/a.py": "class A: ...\nclass B: ...\n", "infra/b.py": "def f():\n    class A: ...\n"}
        )
        (fault,) = rooms.repeated_classes(root)
        assert (fault.path, fault.line) == ("infra/b.py", 2)

    @pytest.mark.parametrize(
        ("text", "faults"),
        [
            ("def handler(event, context): ...", 0),
            ("", 1),
            ("def handle(): ...", 1),
            ("class handler: ...", 1),
            ("def f():\n    def handler(): ...", 1),
        ],
    )
    def test_a_handler_that_others_do_not_find_is_found(self, build: Build, text: str, faults: int) -> None:
        files = {f"src/{name.rpartition('.')[0].replace('.', '/')}.py" for name in rooms.HANDLERS}
        collector = "src/kizami/aws/collector.py"
        root = build({**dict.fromkeys(files, "def handler(event, context): ..."), collector: text})
        assert [fault.path for fault in rooms.lost_handlers(root)] == [collector] * faults

    def test_a_handler_that_has_moved_is_found(self, build: Build) -> None:
        assert len(rooms.lost_handlers(build({"src/kizami/aws/functions/sender.py": "def handler(): ..."}))) == 6


class TestPaths:
    HOUSE = (
        "src/kizami/core/slots.py",
        "src/kizami/local/engine/__init__.py",
        "infra/parts/tables.py",
        "docs/a.md",
    )

    def house(self, build: Build, text: str) -> Path:
        return build({**dict.fromkeys(self.HOUSE, "class Slot: ..."), "README.md": f"fine\n{text}\n"})

    @pytest.mark.parametrize(
        "name",
        [
            *(
                "src/kizami/slots.py",
                "core/slot.py",
                "local/store/",
                "infra/tables.py",
                "docs/b.md",
                "infra/p*.py",
            ),
            *("kizami.core.slot", "kizami.core.slots.Slots", "infra.tables", "infra.parts.tables.Table"),
        ],
    )
    def test_a_path_or_module_that_is_not_there_is_found(self, build: Build, name: str) -> None:
        (fault,) = documents.stale_paths(self.house(build, f"It is `docs/a.md` or `{name}`, see there."))
        assert (fault.path, fault.line, fault.problem) == ("README.md", 2, f"there is no {name}")

    @pytest.mark.parametrize(
        "name",
        [
            *("src/kizami/core/slots.py", "core/", "core/slots.py", "local/engine/", "src/kizami/*/slots.py"),
            *("kizami.core.slots.Slot", "kizami.local.engine", "infra.parts.tables", "infra/parts/"),
            *("kizami.toml", "kizami.db-wal", "./kizami.toml", "dist/", "/api/v1/live", "a/b", "GET /users"),
        ],
    )
    def test_one_that_is_there_or_is_none_is_not(self, build: Build, name: str) -> None:
        assert documents.stale_paths(self.house(build, f"`{name}`")) == []

    def test_a_page_that_the_index_does_not_list_is_found(self, build: Build) -> None:
        root = build({"docs/README.md": "[a](a.md#top), b.md", "docs/a.md": "", "docs/b.md": "", "docs/x.py": ""})
        assert [fault.problem for fault in documents.unlisted_pages(root)] == ["b.md is not listed"]


class TestGlossary:
    def house(self, build: Build, rows: str) -> Path:
        page = '[dead]\nslot = "スロット"\n[tile]\nlateness = "遅れ p50 / p99"\n'
        return build({glossary.GLOSSARY: rows, glossary.JAPANESE: page})

    @pytest.fixture(autouse=True)
    def two_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(glossary, "ON_THE_PAGE", {"slot": "dead.slot", "lateness": "tile.lateness"})

    def test_words_as_the_page_has_them_are_no_fault(self, build: Build) -> None:
        rows = (
            "| word | 日本語 | it is |\n| slot | スロット | x |\n| lateness | 遅れ | x |\n| backend | 家 | x |\n"
        )
        assert glossary.other_words(self.house(build, rows)) == []

    def test_another_word_and_one_that_is_not_explained_are_found(self, build: Build) -> None:
        assert [
            str(fault).split(";")[0] for fault in glossary.other_words(self.house(build, "| slot | 枠 | x |\n"))
        ] == [
            "docs/glossary.md:1: slot is 枠 here, and on the page スロット",
            "docs/glossary.md:1: lateness is not explained",
        ]

"""The list of mutants does not rot: each has its place, its tests are there, and there are enough of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mutants.mutant import ROOT, Mutant, read_mutants
from mutants.run import Copies, Result, table_of, with_table

MUTANTS = read_mutants()
ENOUGH = 150


def test_every_mutant_has_its_place() -> None:
    assert [fault for each in MUTANTS if (fault := each.fault(ROOT))] == []


def test_no_two_mutants_have_one_name_and_there_are_enough() -> None:
    assert [name for name, count in Counter((each.area, each.name) for each in MUTANTS).items() if count > 1] == []
    assert len(MUTANTS) >= ENOUGH


def test_every_mutant_is_tried_by_tests_that_there_are() -> None:
    absent = []
    for test in {test for each in MUTANTS for test in each.tests}:
        file, *names = test.split("::")
        text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
        absent += [test] if not text or any(name.partition("[")[0] not in text for name in names) else []
    assert absent == []
    assert [each.name for each in MUTANTS if not each.tests and not each.same] == []


def test_a_mutant_whose_words_are_gone_or_twice_there_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    assert "2 times in a.py" in str(Mutant("n", "a", "a.py", "= 1", "= 2", ()).fault(tmp_path))
    assert "0 times in b.py" in str(Mutant("n", "a", "b.py", "= 1", "= 2", ()).fault(tmp_path))
    assert Mutant("n", "a", "a.py", "x = 1", "x = 2", ()).fault(tmp_path) is None


@pytest.mark.parametrize(("new", "is_dead"), [("x = 2", True), ("x = 1 + 0", False)])
def test_one_that_is_noticed_dies_and_another_survives_and_the_tree_is_as_it_was(
    tmp_path: Path, new: str, is_dead: bool
) -> None:
    root = tmp_path / "tree"
    for folder in ("src", "tests"):
        (root / folder).mkdir(parents=True)
    (root / "src/a.py").write_text("x = 1\n")
    (root / "tests/test_a.py").write_text("def test_x() -> None:\n    import a\n\n    assert a.x == 1\n")
    mutant = Mutant("n", "a", "src/a.py", "x = 1", new, ("tests/test_a.py",))
    (tmp_path / "copies").mkdir()
    result = Copies(root, tmp_path / "copies", 1).try_mutant(mutant)
    assert result.is_dead == is_dead
    assert (root / "src/a.py").read_text() == (tmp_path / "copies/0/src/a.py").read_text() == "x = 1\n"


def test_the_table_says_how_many_are_noticed_and_names_the_others() -> None:
    one, other = (Mutant(name, "store", "a.py", "1", "2", (), "never read") for name in ("one", "other"))
    table = table_of([Result(one, True, 1.0, ""), Result(other, False, 1.0, "")])
    assert "| store | 2 | 1 |" in table
    assert "- store, *other*: never read" in table
    assert with_table("a <!-- mutants -->old<!-- end of mutants --> b", "new") == (
        "a <!-- mutants -->\n\nnew\n\n<!-- end of mutants --> b"
    )

"""`make mutants`: every mutant in a copy of the tree, with its tests; prints those that nobody notices.

    python -m mutants.run                           all of them
    python -m mutants.run --only writer sealing     those whose area, file or name has one of these words
    python -m mutants.run --kept mutants.jsonl      results are kept there: what was tried is not tried again

The exit code is 1 where one survives that is not said to be the same program, 2 where the tests fail without any.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from mutants.mutant import ROOT, Mutant, read_mutants
from programs.reports import commit_here, with_part

_LIMIT_SECONDS = 150  # a mutant that makes its tests take longer is noticed by that
_ALL_SECONDS = 3600  # for all of the tests without a mutant
_MADE_HERE = {"build", "cdk.out", "dist"}
_MARK, _END = "<!-- mutants -->", "<!-- end of mutants -->"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant; `words` are the last of its tests."""

    mutant: Mutant
    is_dead: bool
    seconds: float
    words: str


class KeptResults:
    """Results, a line each, with which a run that was cut short goes on; without a file nothing is kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text("utf-8").splitlines() if file and file.exists() else []
        self._dead = {(area, name, old, new): is_dead for area, name, old, new, is_dead in map(json.loads, lines)}

    def find(self, mutant: Mutant) -> Result | None:
        is_dead = self._dead.get((mutant.area, mutant.name, mutant.old, mutant.new))
        return None if is_dead is None else Result(mutant, is_dead, 0.0, "")

    def add(self, result: Result) -> None:
        mutant = result.mutant
        if self._file:
            with self._file.open("a", encoding="utf-8") as file:
                line = mutant.area, mutant.name, mutant.old, mutant.new, result.is_dead
                file.write(json.dumps(line) + "\n")


class Copies:
    """Copies of the tree, one a worker: a mutant is in one of them for as long as its tests run."""

    def __init__(self, root: Path, directory: Path, count: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            self._free.put(_copy(root, directory / str(number)))

    @contextmanager
    def one(self) -> Iterator[Path]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)

    def try_mutant(self, mutant: Mutant) -> Result:
        with self.one() as copy:
            began, original = time.monotonic(), (copy / mutant.file).read_bytes()
            mutant.apply(copy)
            try:
                code, words = run_tests(copy, mutant.tests)
            finally:
                (copy / mutant.file).write_bytes(original)
        if code not in (0, 1, 2):
            raise SystemExit(f"{mutant.name}: its tests cannot be run:\n{words}")
        return Result(mutant, code != 0, time.monotonic() - began, words)


def _copy(root: Path, to: Path) -> Path:
    to.mkdir()
    for source in root.iterdir():
        if source.name.startswith(".") or source.name in _MADE_HERE:
            continue
        if source.is_dir():
            shutil.copytree(source, to / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, to / source.name)
    for name in (".venv", ".tools"):
        (to / name).symlink_to(root / name)
    return to


def run_tests(copy: Path, tests: Sequence[str], limit_seconds: int = _LIMIT_SECONDS) -> tuple[int, str]:
    """The exit code of pytest, 1 where it takes too long, and its last words."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1", *tests]
    # Neither bytecode nor examples that failed once outlive a mutant.
    environment = os.environ | {"PYTHONPATH": f"{copy / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=limit_seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"longer than {limit_seconds} s"
    shutil.rmtree(copy / ".hypothesis", ignore_errors=True)
    return done.returncode, (done.stdout + done.stderr)[-3000:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="words of areas, files or names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kept", type=Path, help="the file that keeps results, for a run that goes on later")
    parser.add_argument("--report", type=Path, help="the document to write the table into")
    stated = parser.parse_args()
    mutants = [each for each in read_mutants() if is_meant(each, stated.only)]
    if faults := [fault for each in mutants if (fault := each.fault(ROOT))]:
        print("\n".join(faults))
        return 2
    kept = KeptResults(stated.kept)
    known = [result for each in mutants if (result := kept.find(each))]
    untried = [each for each in mutants if not kept.find(each)]
    with tempfile.TemporaryDirectory(prefix="kizami-mutants-") as directory:
        copies = Copies(ROOT, Path(directory), stated.jobs)
        if untried and not tests_pass(copies, untried):
            return 2
        results = known + list(try_all(copies, untried, stated.jobs, kept))
    if stated.report:
        stated.report.write_text(with_table(stated.report.read_text("utf-8"), table_of(results)), "utf-8")
    return summarise(results)


def is_meant(mutant: Mutant, words: Sequence[str]) -> bool:
    return not words or any(word in f"{mutant.area} {mutant.file} {mutant.name}" for word in words)


def tests_pass(copies: Copies, mutants: Sequence[Mutant]) -> bool:
    """Whether all of the tests pass without a mutant: one that fails anyway would notice every one."""
    tests = sorted({test for each in mutants for test in each.tests})
    with copies.one() as copy:
        code, words = run_tests(copy, tests, _ALL_SECONDS)
    if code:
        print(f"the tests fail without any mutant:\n{words}")
    return code == 0


def try_all(copies: Copies, mutants: Sequence[Mutant], jobs: int, kept: KeptResults) -> Iterator[Result]:
    with ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(copies.try_mutant, mutants):
            kept.add(result)
            fate = "dead" if result.is_dead else "SURVIVES"
            print(f"{fate:8} {result.seconds:5.1f} s  {result.mutant.area}: {result.mutant.name}", flush=True)
            yield result


def table_of(results: Sequence[Result]) -> str:
    """How many of each area die, and who survives with the reason."""
    of, dead = Counter(each.mutant.area for each in results), Counter[str]()
    for each in results:
        dead[each.mutant.area] += each.is_dead
    rows = [f"| {area} | {of[area]} | {dead[area]} |" for area in sorted(of)]
    total = (
        f"| **all** | **{len(results)}** | **{sum(dead.values())}** ({sum(dead.values()) / len(results):.1%}) |"
    )
    survivors = [each.mutant for each in results if not each.is_dead]
    named = [f"- {each.area}, *{each.name}*: {each.same or 'not noticed yet'}" for each in survivors]
    head = ["| area | mutants | noticed |", "| --- | --- | --- |"]
    told = ["Survivors:", "", *named] if named else ["None survives."]
    return "\n".join([f"On commit {commit_here()}:", "", *head, *rows, total, "", *told])


def with_table(document: str, table: str) -> str:
    """The document with this table between its marks."""
    return with_part(document, _MARK, f"\n\n{table}\n\n", _END)


def summarise(results: Sequence[Result]) -> int:
    survivors = [each.mutant for each in results if not each.is_dead]
    print(f"{len(results) - len(survivors)} of {len(results)} are noticed")
    for each in survivors:
        print(f"SURVIVES {each.area}: {each.name} ({each.file}){': ' + each.same if each.same else ''}")
    return int(any(not each.same for each in survivors))


if __name__ == "__main__":
    sys.exit(main())

"""CI runs each failed test once more, alone: a flaky one is listed and the run is green, any other is red."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from house.tree import ROOT

# Without all the others that are installed, of which each takes its time to load.
PLUGINS = "-p xdist.plugin -p _hypothesis_pytestplugin -p no:cacheprovider"
CONFTEST = """
import failed_tests

def pytest_configure(config):
    failed_tests.register(config)
"""
PASSES = "def test_passes(): pass\n"
FLAKY = """
from pathlib import Path

def test_flaky():
    marker = Path("seen")
    seen = marker.exists()
    marker.touch()
    assert seen, "the first time"
"""
FAILS = "def test_fails(): assert 1 == 2\n"
CRASHES_ONCE = """
import os
from pathlib import Path

def test_crashes():
    if not Path("crashed").exists():
        Path("crashed").touch()
        os._exit(7)
"""
SKIPPED_LATER = """
import pytest
from pathlib import Path

def test_skips():
    if Path("asked").exists():
        pytest.skip("not now")
    Path("asked").touch()
    raise OSError("broken")
"""
BROKEN_FIXTURE_ONCE = """
import pytest
from pathlib import Path

@pytest.fixture
def server():
    if not Path("up").exists():
        Path("up").touch()
        raise OSError("no port")

@pytest.mark.parametrize("odd", ["a b", "x::y", "[z]/'"])
def test_asks(server, odd): pass
"""
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run_in_ci(tmp_path: Path) -> Run:
    """Return a function that runs test files as `.ci/run` does: the exit code and all that was printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT / "tests"), "KIZAMI_TEST_FAILURES": str(tmp_path / "failed.json")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    def run(*texts: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = -q {PLUGINS}\n")
        for number, text in enumerate(texts):
            (tmp_path / f"test_{number}.py").write_text(text)
        tests = [sys.executable, "-m", "pytest", *options]
        if subprocess.run(tests, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode == 0:
            return 0, ""
        again = [sys.executable, str(ROOT / ".ci" / "rerun_failed.py"), str(tmp_path / "failed.json")]
        done = subprocess.run(again, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def last_lines(output: str, count: int) -> list[str]:
    return output.splitlines()[-count:]


def test_green_run_runs_nothing_again(run_in_ci: Run) -> None:
    assert run_in_ci(PASSES) == (0, "")


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "side by side"])
def test_flaky_test_is_listed_with_its_first_failure_and_the_run_is_green(
    run_in_ci: Run, options: tuple[str, ...]
) -> None:
    code, output = run_in_ci(PASSES, FLAKY, options=options)
    assert code == 0
    assert output.count("Once more, alone:") == 1
    assert last_lines(output, 1) == ["FLAKY: test_1.py::test_flaky, AssertionError: the first time"]


def test_test_that_fails_again_is_red_and_the_flaky_one_is_listed_all_the_same(run_in_ci: Run) -> None:
    code, output = run_in_ci(FAILS, FLAKY)
    assert code == 1
    assert last_lines(output, 2) == [
        "FLAKY: test_1.py::test_flaky, AssertionError: the first time",
        "FAILED TWICE: test_0.py::test_fails, assert 1 == 2",
    ]


def test_test_that_ended_its_process_is_run_again(run_in_ci: Run) -> None:
    code, output = run_in_ci(CRASHES_ONCE, PASSES, options=("-n", "2"))
    assert code == 0
    assert "FLAKY: test_0.py::test_crashes, worker" in last_lines(output, 1)[0]


def test_fixture_that_fails_once_makes_its_test_flaky_whatever_its_name(run_in_ci: Run) -> None:
    code, output = run_in_ci(BROKEN_FIXTURE_ONCE)
    assert code == 0
    assert last_lines(output, 1) == ["FLAKY: test_0.py::test_asks[a b], OSError: no port"]


def test_test_that_is_skipped_the_second_time_has_not_passed(run_in_ci: Run) -> None:
    code, output = run_in_ci(SKIPPED_LATER)
    assert code == 1
    assert last_lines(output, 1) == ["FAILED TWICE: test_0.py::test_skips, OSError: broken"]


def test_module_that_cannot_be_imported_is_red(run_in_ci: Run) -> None:
    assert run_in_ci(PASSES, "import nothing_of_this_name\n")[0] == 1
    assert run_in_ci(PASSES, "import nothing_of_this_name\n", options=("-n", "2"))[0] == 1


def test_run_that_broke_is_red_without_running_anything_again(run_in_ci: Run, tmp_path: Path) -> None:
    code, output = run_in_ci(PASSES, options=("no_such_file.py",))
    assert (code, output.count("Once more")) == (1, 0)
    (tmp_path / "failed.json").write_text("")
    code, output = run_in_ci(PASSES, options=("--no-such-option",))
    assert (code, output.count("Once more")) == (1, 0)


def test_many_real_failures_end_the_second_runs_early(run_in_ci: Run) -> None:
    code, output = run_in_ci("".join(f"def test_{number}(): assert 0\n" for number in range(13)))
    assert (code, output.count("FAILED TWICE"), last_lines(output, 1)) == (1, 10, ["3 more were not run again."])


def test_ci_runs_failed_tests_again_only_after_the_whole_suite() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    again = '.venv/bin/python .ci/rerun_failed.py "$failed"'
    assert lines[-1] == f"KIZAMI_TEST_FAILURES=$failed make test || {again}"

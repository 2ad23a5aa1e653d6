"""Run each failed test of a run once more, alone: green if all of them pass now.

Usage: rerun_failed.py FILE, with the file that a run of pytest wrote because KIZAMI_TEST_FAILURES named it.

Lists each test that passes now as FLAKY, with its first failure, and each that fails again as FAILED TWICE. Exits
with 1 if one fails again, or if the run ended for another reason than failed tests.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

TESTS_FAILED = 1  # pytest's exit code; any other one says that the run itself broke
MOST_RED = 10  # a run with so many real failures is red, whatever the rest does


def main(file: Path) -> int:
    try:
        run = json.loads(file.read_text())
    except (OSError, ValueError):
        print(f"No list of failed tests in {file}: the run ended before pytest did.", file=sys.stderr)
        return 1
    if run["exit"] != TESTS_FAILED or not run["failed"]:
        print(f"pytest ended with {run['exit']}, not with failed tests: nothing is run again.", file=sys.stderr)
        return 1
    flaky, red = [], []
    for name, failure in run["failed"].items():
        if len(red) == MOST_RED:
            break
        print(f"\nOnce more, alone: {name}", flush=True)
        (flaky if passes(name) else red).append(f"{name}, {failure}")
    for line in flaky:
        print(f"FLAKY: {line}")
    for line in red:
        print(f"FAILED TWICE: {line}")
    left = len(run["failed"]) - len(flaky) - len(red)
    if left:
        print(f"{left} more were not run again.")
    return 1 if red else 0


def passes(name: str) -> bool:
    """Return True if this test passes alone; a skipped one has not passed."""
    command = [sys.executable, "-m", "pytest", "--hypothesis-seed=1", name]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(run.stdout, end="", flush=True)
    return run.returncode == 0 and bool(re.search(r"\b\d+ passed\b", run.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

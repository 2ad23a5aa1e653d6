"""Seeds once more, in a process whose sets have another order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from simulation.world.simulation import Length

TESTS = Path(__file__).parents[1]


def runs_elsewhere(where: str, seeds: range, length: Length) -> list[str]:
    """What each seed has come to there, in words."""
    lasting = [
        "--days",
        f"{length.days}",
        "--faults",
        f"{length.faults_a_day}",
        "--quiet",
        f"{length.quiet_seconds}",
    ]
    which = ["--where", where, "--seed", f"{seeds[0]}", "--seeds", f"{len(seeds)}", "--many", f"{length.many}"]
    other_order = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    run = subprocess.run(
        [sys.executable, "-m", "simulation.simulate", *which, *lasting, "--only", "all"],
        env=os.environ | {"PYTHONHASHSEED": other_order, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines()

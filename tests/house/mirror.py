"""Unit tests stand where their modules stand: `tests/unit/aws/test_sender.py` shows `src/kizami/aws/sender.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from house.tree import Fault, place

# Those that show what several modules do together, and which.
ACROSS = {
    "aggregation/test_secrets": ("batch", "log_codes"),
    "aws/test_many_targets": ("sender", "collector"),
    "cli/test_usage": ("main",),
    "cli/verbs/test_reading_verbs": ("status", "targets", "query", "chart", "gaps", "export"),
    "cli/verbs/test_repairing_verbs": ("backfill", "dead_letters"),
    "cli/verbs/test_setting_up_verbs": ("init", "cost"),
    "web/prometheus/test_promql": ("syntax", "evaluation", "samples", "patterns"),
}


def unit_tests_out_of_place(root: Path) -> list[Fault]:
    """Unit tests that show no module of their folder."""
    return [fault for path in sorted((root / "tests/unit").rglob("test_*.py")) for fault in _faults(root, path)]


def _faults(root: Path, path: Path) -> Iterator[Fault]:
    name = path.relative_to(root / "tests/unit").with_suffix("")
    shown = ACROSS.get(name.as_posix(), (name.name.removeprefix("test_"),))
    modules = {
        module.stem for module in (root / "src/kizami" / name.parent).glob("*") if module.stem[0] not in "_."
    }
    for module in shown:
        if not any(module == known or module.startswith(f"{known}_") for known in modules):
            problem = f"there is no module {module} in src/kizami/{name.parent.as_posix()}"
            yield Fault(place(root, path), 1, problem, "name the test for its module, or its modules in ACROSS")

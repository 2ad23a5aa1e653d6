"""The templates keep to AWS's own description of every resource, as cfn-lint carries it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from aws_here.template import synthesize

DEPENDENCY_SAID_TWICE = "W3005"  # CDK names a role in DependsOn beside the reference to it

PROFILES: tuple[dict[str, str], ...] = (
    {},
    {"profile": "production"},
    {"profile": "production", "nat_per_zone": "true", "monitoring": "minimal", "platform_reports": "true"},
)


def test_cfn_lint_finds_nothing_in_any_profile() -> None:
    made = [synthesize(**context, aggregation="true").directory for context in PROFILES]
    templates = [str(path) for directory in made for path in directory.glob("*.template.json")]
    assert len(templates) == len(made)
    program = Path(sys.executable).with_name("cfn-lint")
    command = [str(program), "--ignore-checks", DEPENDENCY_SAID_TWICE, "--", *templates]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr

"""The templates keep to AWS's own description of every resource, as cfn-lint carries it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from aws_here.template import synthesize

DEPENDENCY_SAID_TWICE = "W3005"  # CDK names a role in DependsOn beside the reference to it


def test_cfn_lint_finds_nothing_in_either_profile() -> None:
    made = synthesize(aggregation="true").directory, synthesize(profile="production", aggregation="true").directory
    templates = [str(path) for directory in made for path in directory.glob("*.template.json")]
    assert len(templates) == len(made)
    program = Path(sys.executable).with_name("cfn-lint")
    command = [str(program), "--ignore-checks", DEPENDENCY_SAID_TWICE, "--", *templates]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr

"""The templates keep to AWS's own description of every resource, as cfn-lint carries it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aws_here.template import synthesize

DEPENDENCY_SAID_TWICE = "W3005"  # CDK names a role in DependsOn beside the reference to it


@pytest.mark.parametrize("profile", ["standard", "production"])
def test_cfn_lint_finds_nothing(profile: str) -> None:
    context = {} if profile == "standard" else {"profile": profile}
    (template,) = synthesize(**context).directory.glob("*.template.json")
    program = Path(sys.executable).with_name("cfn-lint")
    command = [str(program), "--ignore-checks", DEPENDENCY_SAID_TWICE, "--", str(template)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr

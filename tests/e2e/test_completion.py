"""Completion in the shells themselves, set up as docs/cli.md says and with nothing else in their files."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import skip_for_lack_of
from programs.command import environment, run_process


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A user's own, with `kizami` on the path and nothing in the home directory."""
    program = tmp_path / "bin/kizami"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kizami.cli.main "$@"\n')
    program.chmod(0o755)
    backends = {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    path = f"{program.parent}:{os.environ['PATH']}"
    return environment(PATH=path, PYTHONPATH=os.pathsep.join(sys.path), TERM="xterm", **backends)


def require(shell: str) -> str:
    """Where the shell is."""
    if not (found := shutil.which(shell)):
        skip_for_lack_of(shell, f"apt-get install {shell}")
    return found


def test_zsh_completes_though_nothing_called_compinit(tmp_path: Path, env: dict[str, str]) -> None:
    shell = require("zsh")
    # Ctrl-X shows the line as it was completed, free of the terminal's own signs.
    (tmp_path / ".zshrc").write_text(
        'eval "$(kizami completion zsh)"\n'
        "show() { print -r -- \"line=<$BUFFER>\" }; zle -N show; bindkey '^X' show\n"
        'print -r -- "set"" up"\n'
    )
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [shell, "-d", "-i"], cwd=tmp_path, env=env, stdin=follower, stdout=follower, stderr=follower,
        start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        words = read_until(leader, b"set up")
        os.write(leader, b"kizami dead-letters red\t\x18")
        words += read_until(leader, b">\r\n")
    finally:
        process.kill()
        process.wait(timeout=60)
        os.close(leader)
    assert b"line=<kizami dead-letters redrive >" in words
    assert b"compdef" not in words


def read_until(leader: int, end: bytes) -> bytes:
    output = b""
    while end not in output:
        output += os.read(leader, 65_536)
    return output


def test_fish_shows_whole_descriptions(tmp_path: Path, env: dict[str, str]) -> None:
    shell = require("fish")
    script = tmp_path / ".config/fish/completions/kizami.fish"
    script.parent.mkdir(parents=True)
    script.write_text(run_process("completion", "fish", cwd=tmp_path).out)
    done = subprocess.run(
        [shell, "-c", 'complete -C "kizami query --fr"; complete -C "kizami dead-l"'],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.splitlines() == [
        "--from\tFrom here on: 2025-12-02T10:00:00Z, -2h, today or yesterday.",
        "dead-letters\tList, retry or forget the slots that were given up.",
    ], done.stderr

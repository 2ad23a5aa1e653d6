"""One process that synthesizes for all of a run: CDK's first template takes ten times as long as the next ones.

a test ─▶ template.synthesize ─▶ ask ─▶ this program: infra.app, or somebody's own app ─▶ where the template is
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

from programs.local_processes import running, wait_for
from programs.once_a_run import shared_server

ROOT = Path(__file__).parents[2]
NOWHERE = "/nowhere"
# It needs no credentials, no Docker, nothing on the PATH.
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src", ROOT / "tests"))),
    "PATH": NOWHERE,
    "AWS_CONFIG_FILE": NOWHERE,
    "AWS_SHARED_CREDENTIALS_FILE": NOWHERE,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def ask_for_stack(context: Mapping[str, str], directory: Path) -> Path:
    """The stack with that context, synthesized into the directory; gives its template's place."""
    return _ask(dict(context), directory)


def ask_for_app(program: Path) -> Path:
    """Somebody's own app, a program that leaves `app` and `stack`; gives the place of the stack's template."""
    return _ask(program, None)


def _ask(*words: object) -> Path:
    with Client(shared_server("synthesizer", _synthesizer)) as asking:
        asking.send(words)
        answer = asking.recv()
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, Path)
    return answer


@contextmanager
def _synthesizer() -> Iterator[str]:
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
    with running([sys.executable, "-m", "aws_here.synthesizer"], {**kept, **ENVIRONMENT}) as words:
        yield wait_for(lambda: words().partition("\n")[0] if "\n" in words() else None, words)


def _serve() -> None:
    with Listener(family="AF_UNIX") as listener:
        sys.stdout.write(f"{listener.address}\n")
        sys.stdout.flush()
        while True:
            with listener.accept() as asked, suppress(EOFError, OSError):  # who asks may be gone
                _answer(asked)


def _answer(asked: Connection) -> None:
    what, directory = asked.recv()
    try:
        asked.send(_run_app(what) if directory is None else _synthesize(what, directory))
    except Exception as error:  # noqa: BLE001  (the test says what it expected)
        asked.send(error)


def _synthesize(context: Mapping[str, str], directory: Path) -> Path:
    from infra.app import synthesize

    return directory / synthesize(context, str(directory)).template_file


def _run_app(program: Path) -> Path:
    import infra  # noqa: F401  -- says which Node.js CDK runs on

    names = runpy.run_path(str(program))
    return Path(names["app"].outdir, names["stack"].template_file)


if __name__ == "__main__":
    _serve()

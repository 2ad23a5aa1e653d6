"""One statement after another, typed on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import apsw

from kizami.cli.sql.results import WriteResult
from kizami.cli.sql.session import TABLES, SqlSession
from kizami.cli.terminal.printing import plural, say
from kizami.core.errors import KizamiError

_PROMPT, _CONTINUED = "kizami> ", "   ...> "
_HELP = """\
A statement ends with ; and may have several lines. Ctrl-C ends a long one, Ctrl-D or .quit ends this.
.tables        the tables and their columns
.mode NAME     how results are shown: {modes}
.help, .quit"""


class Shell:
    """Reads statements, asks, shows; a mistake ends nothing."""

    def __init__(
        self, session: SqlSession, modes: Mapping[str, WriteResult], mode: str, read: Callable[[str], str] = input
    ) -> None:
        self._session = session
        self._modes = modes
        self._mode = mode
        self._read = read

    def run(self) -> None:
        """Until the end of input, or .quit."""
        _edit_lines()
        say("`.help` tells what can be typed, `.quit` ends")
        with suppress(EOFError):
            while (statement := self._next()) != ".quit":
                self._obey(statement)

    def _next(self) -> str:
        """The next statement or command; nothing where Ctrl-C has taken it back."""
        typed, prompt = "", _PROMPT
        try:
            while True:
                typed = f"{typed}\n{self._read(prompt)}" if typed else self._read(prompt).strip()
                if not typed or typed.startswith(".") or apsw.complete(typed):
                    return {".exit": ".quit"}.get(typed, typed)
                prompt = _CONTINUED
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            return ""

    def _obey(self, typed: str) -> None:
        command, _, argument = typed.partition(" ")
        if not typed:
            return
        if command == ".mode" and argument.strip() in self._modes:
            self._mode = argument.strip()
        elif command == ".tables":
            for name, columns in TABLES.items():
                say(f"{name} ({', '.join(column.split()[0] for column in columns)})")
        elif command.startswith("."):
            sys.stderr.write(_HELP.format(modes=", ".join(self._modes)) + "\n")
        else:
            self._ask(typed)

    def _ask(self, statement: str) -> None:
        try:
            count = self._modes[self._mode](self._session.ask(statement), sys.stdout)
            sys.stdout.flush()
            say(plural(count, "row"))
        except KizamiError as error:
            say(str(error))
        except KeyboardInterrupt:
            say("interrupted")


def _edit_lines() -> None:
    with suppress(ImportError):
        import readline  # noqa: F401 (its import is what lets `input` edit lines and recall them)

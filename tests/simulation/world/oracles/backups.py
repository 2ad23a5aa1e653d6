"""Who knows what a backup has to hold, and reads every one of them."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from kizami.core.errors import StoreError
from kizami.local.copies.copying import require_sound
from kizami.local.copies.rotation import backups_in, dated
from simulation.world.oracle import Oracle, Slot, Violation, read_records

_PART = re.compile(r"\.(.+)\.\d+\.kizami\.part")  # under which a backup is made, until it is whole


class BackupOracle:
    """What was acknowledged when each backup was begun."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._begun: dict[str, dict[Slot, int]] = {}
        self._newest: str | None = None
        self._whole: set[str] = set()
        self.made = 0

    def opened(self, name: str) -> None:
        """A file was opened for the first time."""
        if match := _PART.fullmatch(name):
            self._begun[match[1]] = self._oracle.acknowledged_now()
            self._whole.discard(match[1])

    def told(self, name: str) -> None:
        """The log says that it was made."""
        self._newest = name
        self.made += 1

    def restored(self) -> None:
        """What is acknowledged from now on is another history; backups of the former one are still whole."""
        self._newest = None

    def check(self, directory: Path, *, anew: bool) -> None:
        """What has the name of a backup is whole, and the last one that was told of is there."""
        names = [name for _, name in dated(backups_in(directory))]
        if self._newest and self._newest not in names:
            raise Violation(f"{self._newest} was made, and is gone; there are {names}")
        for name in names:
            if anew or name not in self._whole:
                self.read(directory / name)
            self._whole.add(name)

    def read(self, file: Path) -> dict[Slot, int]:
        """Its records; Violation unless it is sound and has all that was acknowledged when it was begun."""
        with tempfile.TemporaryDirectory(dir=file.parents[2]) as elsewhere:
            copy = Path(shutil.copy(file, Path(elsewhere) / "kizami.db"))
            try:
                require_sound(copy)
                found = read_records(copy)
            except StoreError as error:
                raise Violation(f"the backup {file.name} is not whole: {error}") from error
        for slot, count in found.items():
            self._oracle.require_answer(slot, count)
        self._oracle.require_all(self._begun.get(file.name, {}), found)
        return found

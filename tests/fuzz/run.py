"""Fuzzing for as long as it is told: `python -m fuzz.run --minutes 10`.

A text that breaks a promise is printed and kept in the corpus, so that `make test` fails until it is mended.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence

from fuzz.mutation import mutations
from fuzz.parsers import PARSERS, Broken, check, corpus_of, keep

_STUCK_SECONDS = 60
_ROUND = 200  # texts of a parser, before it is the next one's turn


def fuzz(names: Sequence[str], seed: int, seconds: float) -> tuple[Counter[str], Counter[str], list[str]]:
    """How many texts each parser was given and took, and what broke."""
    texts = {name: mutations(seed, corpus_of(name)) for name in names}
    given, taken, broken = Counter[str](), Counter[str](), list[str]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name in names:
            for _, text in zip(range(_ROUND), texts[name], strict=False):
                given[name] += 1
                signal.alarm(_STUCK_SECONDS)
                try:
                    taken[name] += check(name, text)
                except Broken as error:
                    keep(name, text)
                    broken.append(str(error))
                finally:
                    signal.alarm(0)
    return given, taken, broken


def _stuck(*_: object) -> None:
    raise TimeoutError(f"nothing after {_STUCK_SECONDS} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", nargs="*", choices=sorted(PARSERS), default=sorted(PARSERS))
    stated = parser.parse_args()
    print(f"seed {stated.seed}", flush=True)
    signal.signal(signal.SIGALRM, _stuck)
    given, taken, broken = fuzz(stated.only, stated.seed, 60 * stated.minutes)
    for name in stated.only:
        print(f"{name:12} {given[name]:>9,} texts, {taken[name]:>8,} of them taken")
    print(f"{given.total():,} texts, {len(broken)} broken promises")
    for each in broken[:20]:
        print(each[:2000])
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""Output that never blocks: written at once, kept for a reader that pauses, told of when it is too much."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

import pytest

from fakes.full_pipe import FullPipe
from kizami.cli.terminal.unblocked_output import UnblockedOutput


@pytest.fixture
def pipe() -> Iterator[FullPipe]:
    with FullPipe() as pipe:
        yield pipe


def stream(descriptor: int) -> TextIOWrapper:
    return open(os.dup(descriptor), "w", encoding="utf-8")


def test_what_a_reader_has_not_taken_is_kept_and_the_rest_counted_once(pipe: FullPipe) -> None:
    told: list[int] = []
    is_told = threading.Event()

    def tell(count: int) -> None:
        told.append(count)
        is_told.set()

    with stream(pipe.writer) as file:
        output = UnblockedOutput(file, tell, limit=5)
        output.write("line 0\n")
        output.finish()  # which gives up; by now the first line is on its way, and stuck
        for number in range(1, 21):
            output.write(f"line {number}\n")
        assert told == []
        text = pipe.read(b"line 20\n")
        assert is_told.wait(60)
    assert text.decode().split() == ["line", "0", *" ".join(f"line {n}" for n in range(16, 21)).split()]
    assert told == [15]


def test_the_end_waits_for_a_reader_that_reads(pipe: FullPipe) -> None:
    with stream(pipe.writer) as file:
        output = UnblockedOutput(file, lambda count: None)
        output.write("応答 \ud83d\n")
        reading = threading.Thread(target=pipe.read, args=[b"\n"])
        reading.start()
        output.finish()
        reading.join()


def test_a_stream_that_somebody_has_made_non_blocking_loses_nothing(pipe: FullPipe) -> None:
    os.set_blocking(pipe.writer, False)
    with stream(pipe.writer) as file:
        UnblockedOutput(file, lambda count: None).write("line\n" * 50_000)
        assert len(pipe.read(b"line\n" * 50_000)) == 250_000


def test_an_error_is_told_and_the_next_piece_tried(tmp_path: Path) -> None:
    errors: list[OSError] = []
    with open("/dev/full", "w", encoding="utf-8") as full:
        output = UnblockedOutput(full, lambda count: None, errors.append)
        for _ in range(2):
            output.write("line\n")
            output.finish()
    assert [error.strerror for error in errors] == ["No space left on device"] * 2

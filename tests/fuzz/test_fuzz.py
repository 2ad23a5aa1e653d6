"""Every parser with what is kept for it, and with some hundred new texts made of that."""

from __future__ import annotations

from itertools import islice

import pytest

from fuzz.mutation import mutations
from fuzz.parsers import CORPUS, PARSERS, Broken, check, corpus_of
from kizami.core.errors import KizamiError

TEXTS = 400


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_kept_is_taken_or_refused_and_some_of_it_is_taken(name: str) -> None:
    """Else the new texts would all be refused at their first character."""
    taken = [check(name, text) for text in corpus_of(name)]
    assert any(taken)


@pytest.mark.parametrize("name", PARSERS)
def test_whatever_the_text_a_parser_takes_it_or_refuses_it_in_one_line_and_soon(name: str) -> None:
    for text in islice(mutations(1, corpus_of(name)), TEXTS):
        check(name, text)


def test_there_is_a_corpus_for_every_parser_and_for_no_other() -> None:
    assert {path.stem for path in CORPUS.glob("*")} == PARSERS.keys()


@pytest.mark.parametrize("fault", [ValueError("x"), RecursionError(), KizamiError("two\nlines")])
def test_a_parser_that_breaks_its_promise_is_noticed(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    def parse(text: str) -> None:
        raise fault

    monkeypatch.setitem(PARSERS, "name", parse)
    with pytest.raises(Broken, match="name: "):
        check("name", "x")


def test_the_same_seed_gives_the_same_texts() -> None:
    corpus = corpus_of("promql")
    assert list(islice(mutations(7, corpus), 50)) == list(islice(mutations(7, corpus), 50))

"""The tree of errors: what its docstring draws is what there is, and every message is one line."""

from __future__ import annotations

import pickle
import re

import pytest

from kizami.cli.exit_codes import CONFIGURATION, FAILURE, UNREACHABLE, USAGE, exit_code
from kizami.core import errors
from kizami.core.errors import (
    ApiPayloadError,
    ApiStatusError,
    ApiUnreachable,
    ConfigurationError,
    InvalidInput,
    KizamiError,
    QueueError,
    StoreError,
)


def drawn_tree(drawing: str) -> dict[str, str]:
    """Class name -> parent's name, as the docstring draws them with four columns a level."""
    parents: dict[str, str] = {}
    above: list[str] = ["Exception"]
    for match in re.finditer(r"^    ([│├└─ ]*)([A-Z]\w+)", drawing, re.MULTILINE):
        level = len(match[1]) // 4
        above[level + 1 :] = [match[2]]
        parents[match[2]] = above[level]
    return parents


def real_tree() -> dict[str, str]:
    classes = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    return {cls.__name__: cls.__base__.__name__ for cls in classes if cls.__base__ is not None}


def test_the_docstring_draws_the_tree_that_there_is() -> None:
    assert errors.__doc__ is not None
    assert drawn_tree(errors.__doc__) == real_tree()


def test_a_drawing_that_lacks_a_class_or_hangs_it_elsewhere_is_noticed() -> None:
    assert drawn_tree("    Root\n    ├── Left   x\n    │   └── Leaf\n    └── Right\n") == {
        "Root": "Exception",
        "Left": "Root",
        "Leaf": "Left",
        "Right": "Root",
    }


def test_a_configuration_error_names_its_place() -> None:
    error = ConfigurationError("QUEUE_URL", "is not set")
    assert (str(error), error.place, error.problem) == ("QUEUE_URL: is not set", "QUEUE_URL", "is not set")


def test_invalid_input_names_its_field() -> None:
    error = InvalidInput("from", "is missing")
    assert (str(error), error.field, error.problem) == ("from: is missing", "from", "is missing")


def test_a_status_error_carries_what_a_retry_needs() -> None:
    error = ApiStatusError(429, 30.0)
    assert (str(error), error.status, error.retry_after_seconds) == ("status 429, expected 200", 429, 30.0)


@pytest.mark.parametrize(
    "error", [ConfigurationError("a", "b"), InvalidInput("a", "b"), ApiStatusError(429, 30.0), StoreError("x")]
)
def test_an_error_can_be_handed_to_another_process(error: KizamiError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("a", "b"), USAGE),
        (ConfigurationError("a", "b"), CONFIGURATION),
        (ApiUnreachable("refused"), UNREACHABLE),
        (ApiStatusError(500), FAILURE),
        (ApiPayloadError("x"), FAILURE),
        (QueueError("x"), FAILURE),
        (StoreError("x"), FAILURE),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: KizamiError, code: int) -> None:
    assert exit_code(error) == code

"""The options that say who may see the dashboard, which `kizami up` and `kizami dashboard` share."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kizami.core.errors import ConfigurationError
from kizami.core.redaction import KNOWN

if TYPE_CHECKING:
    from kizami.web.security import Access

# The Access of the address that is listened on. It is made late: `kizami up` may do without the page.
OpenAccess = Callable[[str], "Access"]

_OPTIONS = (
    click.option("--token-env", metavar="NAME", help="The environment variable with the token to ask for."),
    click.option("--read-token-env", metavar="NAME", help="That of a second token, which may only look."),
    click.option("--allow-host", multiple=True, metavar="NAME", help="A further name by which it is reached."),
    click.option(
        "--frame-ancestor", multiple=True, metavar="ORIGIN", help="A site that may show the page in a frame."
    ),
)


def page_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb these options; it gets `access`, which makes an Access of the address that it listens on."""

    @wraps(verb)
    def with_access(
        *args: Any,
        token_env: str | None,
        read_token_env: str | None,
        allow_host: tuple[str, ...],
        frame_ancestor: tuple[str, ...],
        **options: Any,
    ) -> Any:
        def access(host: str) -> Access:
            from kizami.web.security import access_for

            tokens = read_token(token_env, "--token-env"), read_token(read_token_env, "--read-token-env")
            return access_for(host, tokens[0], allow_host, read_token=tokens[1], frame_ancestors=frame_ancestor)

        return verb(*args, access=access, **options)

    found: Callable[..., Any] = with_access
    for option in reversed(_OPTIONS):
        found = option(found)
    return found


def read_token(name: str | None, option: str = "--token-env") -> str | None:
    """The token that the environment variable holds; None without a name."""
    if name is None:
        return None
    token = os.environ.get(name)
    if not token:
        raise ConfigurationError(name, f"is not set; it should hold the dashboard's token ({option})")
    KNOWN.add(token)
    return token

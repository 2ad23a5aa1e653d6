"""The page's own files, at addresses that change with them: a browser keeps each and asks no more."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib import resources
from mimetypes import guess_type
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

KEPT = "public, max-age=31536000, immutable"
ASKED_ABOUT = "no-cache"
_IMPORT = re.compile(r'^import .*?"\./([\w.]+)";$', re.MULTILINE)


def asset_routes() -> list[BaseRoute]:
    """The route of the files."""
    return [Route("/static/{path:path}", _asset)]


async def _asset(request: Request) -> Response:
    file, cache_control = find_asset(request.path_params["path"])
    if file not in assets():
        raise HTTPException(404)
    headers = {"Cache-Control": cache_control}
    return Response(assets()[file], media_type=guess_type(file)[0] or "text/plain", headers=headers)


@cache
def assets() -> dict[str, bytes]:
    """All of them by name, as they were when the process first asked: a page that opens waits for no disk."""
    folder = Path(str(resources.files("kizami.web") / "static"))
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    return {name: (resources.files("kizami.web") / "static" / name).read_bytes() for name in names}


@cache
def assets_url() -> str:
    """Where the files are; other files are elsewhere."""
    contents = sha256()
    for content in assets().values():
        contents.update(content)
    return f"/static/v-{contents.hexdigest()[:12]}"


@cache
def modules_of(script: str) -> tuple[str, ...]:
    """The modules that a script needs, and those that they need.

    A browser that is told of them asks for all at once; by itself it would find one after the other.
    """
    found = [script]
    for module in found:
        needed = _IMPORT.findall(assets()[module].decode())
        found += [each for each in needed if each not in found]
    return tuple(found[1:])


def find_asset(path: str) -> tuple[str, str]:
    """The file at a path below `/static/`, and how long a browser may keep it.

    A page that was opened before an upgrade still finds its files, as they are now.
    """
    version, _, file = path.partition("/")
    if not version.startswith("v-"):
        return path, ASKED_ABOUT
    return file, KEPT if assets_url().endswith(f"/{version}") else ASKED_ABOUT

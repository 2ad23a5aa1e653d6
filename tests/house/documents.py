"""What must be written down: verbs, options, exit codes, variables, settings; and links that lead somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from house.tree import Fault, place, sources, syntax, text_lines

CLI = "docs/cli.md"
CONFIGURATION = "docs/configuration.md"
INDEX = "docs/README.md"
SHARED_OPTIONS = "Options of several verbs"

# Spelt like variables, but none: the beginning of those that Click makes from the names of options.
NO_VARIABLES = frozenset({"KIZAMI_"})
_VARIABLE = re.compile(r"(?!ALL_(?:OLD|NEW)$)[A-Z][A-Z0-9]*(_[A-Z0-9]*)+")  # those two are words of DynamoDB

# A path of the repository, or one below src/kizami; a module or what is in it.
_PATH = re.compile(r"`(\w[\w.-]*(?:/[\w.*-]+)+/?|[a-z_]+/)`")
_DOTTED = re.compile(r"`((?:kizami|infra)(?:\.\w+)+)`")
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def sections(text: str) -> dict[str, str]:
    """Second-level heading (without backticks) -> what stands under it."""
    pieces = re.split(r"^## +(.*)$", text, flags=re.MULTILINE)[1:]
    return {title.replace("`", "").strip(): body for title, body in zip(pieces[::2], pieces[1::2], strict=True)}


def undocumented_verbs(text: str, verbs: Mapping[str, Iterable[str]]) -> list[Fault]:
    """Verbs without a section `kizami VERB`, options without a row in it or among the shared; also stale ones."""
    written = {
        name.removeprefix("kizami "): body for name, body in sections(text).items() if name[:7] == "kizami "
    }
    shared = _rows(sections(text).get(SHARED_OPTIONS, ""))
    faults = [
        Fault(CLI, 1, f"no section `kizami {verb}`", "describe the verb under a heading of that name")
        for verb in verbs.keys() - written.keys()
    ]
    for verb, body in written.items():
        options, described = set(verbs.get(verb, ())), _rows(body)
        if verb not in verbs:
            faults.append(Fault(CLI, 1, f"there is no verb {verb} (any more)", "remove its section"))
        for option in (options - described - shared) | (described - options if verb in verbs else set()):
            problem = f"kizami {verb} {option}: in the command or in its table, but not in both"
            faults.append(Fault(CLI, 1, problem, f"give each option a row that begins with | `{option}`"))
    for option in shared - {option for options in verbs.values() for option in options}:
        faults.append(Fault(CLI, 1, f"no verb has {option} (any more)", f"remove it from `## {SHARED_OPTIONS}`"))
    return sorted(faults)


def _rows(body: str) -> set[str]:
    return set(re.findall(r"^\| `(-[^`\s]+)", body, re.MULTILINE))


def undocumented_exit_codes(text: str, codes: Mapping[str, int]) -> list[Fault]:
    """Exit codes that the table does not have, or has though they are no more."""
    described = {
        int(code) for code in re.findall(r"^\| (\d+) \|", sections(text).get("Exit codes", ""), re.MULTILINE)
    }
    return [
        Fault(
            CLI,
            1,
            f"exit code {code}: in the source or in the table, but not in both",
            "bring `## Exit codes` up to date",
        )
        for code in sorted(set(codes.values()) ^ described)
    ]


def variables(root: Path) -> dict[str, tuple[str, int]]:
    """Every environment variable that the source names, with one place where it does."""
    found: dict[str, tuple[str, int]] = {}
    for path in sources(root):
        for name, line in _named_variables(syntax(path)):
            found.setdefault(name, (place(root, path), line))
    return {name: where for name, where in found.items() if name not in NO_VARIABLES}


def _named_variables(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Strings that are spelt like a variable, and whatever is taken from the environment or given to Click."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VARIABLE.fullmatch(node.value):
            yield node.value, node.lineno
        elif isinstance(node, ast.Subscript) and _is_environment(node.value):
            yield from _strings(node.slice)
        elif isinstance(node, ast.Call):
            yield from _variables_of_call(node)


def _variables_of_call(node: ast.Call) -> Iterator[tuple[str, int]]:
    function = node.func
    if isinstance(function, ast.Attribute) and (function.attr == "getenv" or _is_environment(function.value)):
        yield from (name for argument in node.args[:1] for name in _strings(argument))
    for keyword in node.keywords:
        if keyword.arg == "envvar":
            yield from _strings(keyword.value)


def _is_environment(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id in ("environ", "environment", "env")
    )


def _strings(node: ast.expr) -> Iterator[tuple[str, int]]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value, part.lineno


def undocumented_variables(text: str, named: Mapping[str, tuple[str, int]]) -> list[Fault]:
    """Variables without a row in a table, and rows of ours that nothing reads."""
    described = set(re.findall(r"^\| `([A-Z][A-Z0-9_]*)` \|", text, re.MULTILINE))
    faults = [
        Fault(path, line, f"{name} is not described", f"give it a row in a table of {CONFIGURATION}")
        for name, (path, line) in named.items()
        if name not in described
    ]
    for name in described - named.keys():
        if not name.startswith("AWS_"):  # the SDK reads more of those than we name
            faults.append(Fault(CONFIGURATION, 1, f"nothing reads {name}", "remove its row"))
    return sorted(faults)


def settings(root: Path) -> set[str]:
    """What kizami.toml may say: the names in a `…_SETTINGS` or in `refuse_unknown(table, ("a", "b"), …)`."""
    return {name for path in sources(root) for node in ast.walk(syntax(path)) for name in _named_settings(node)}


def _named_settings(node: ast.AST) -> Iterator[str]:
    known: ast.expr | None = None
    if isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        known = node.value if isinstance(target, ast.Name) and target.id.endswith("_SETTINGS") else None
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "refuse_unknown":
        known = node.args[1]
    names = known.keys if isinstance(known, ast.Dict) else known.elts if isinstance(known, ast.Tuple) else ()
    yield from (name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str))


def undocumented_settings(text: str, known: Iterable[str]) -> list[Fault]:
    """Settings of kizami.toml without a row, and rows without a setting."""
    body = sections(text).get("kizami.toml", "")
    described = set(re.findall(r"^\| `([a-z_]+)` \|", body, re.MULTILINE))
    return [
        Fault(
            CONFIGURATION,
            1,
            f"setting {name}: known to the source or to the table, but not to both",
            "add or remove its row",
        )
        for name in sorted(set(known) ^ described)
    ]


def dead_links(root: Path) -> list[Fault]:
    """Links of the documents to files or headings that are not there."""
    faults = []
    for path in _documents(root):
        text = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), path.read_text("utf-8"))
        for match in _LINK.finditer(text):
            if not re.match(r"[a-z][a-z0-9+.-]*:", match[1]) and not _leads_somewhere(path, match[1]):
                line = text.count("\n", 0, match.start()) + 1
                remedy = "correct the path or the #heading"
                faults.append(Fault(place(root, path), line, f"the link {match[1]} leads nowhere", remedy))
    return faults


def _leads_somewhere(path: Path, link: str) -> bool:
    file, _, anchor = unquote(link).partition("#")
    target = path.parent / file if file else path
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in _anchors(target))


def _anchors(path: Path) -> set[str]:
    headings = _HEADING.findall(_FENCE.sub("", path.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def stale_paths(root: Path) -> list[Fault]:
    """Paths and modules between backticks of the documents that are not there (any more)."""
    return [
        Fault(place(root, path), number, f"there is no {name}", "say where it is now")
        for path in _documents(root)
        for number, line in enumerate(text_lines(path), 1)
        for name in [*_lost_paths(root, line), *_lost_modules(root, line)]
    ]


def _lost_paths(root: Path, line: str) -> Iterator[str]:
    """Those that begin with a folder of the repository, or of the package as its maps name them."""
    for name in _PATH.findall(line):
        tops = [top for top in (root, root / "src/kizami") if (top / name.split("/")[0]).is_dir()]
        if tops and not any(any(top.glob(name.rstrip("/"))) for top in tops):
            yield name


def _lost_modules(root: Path, line: str) -> Iterator[str]:
    """`kizami.toml` is a file: what counts begins with a package of ours."""
    for name in _DOTTED.findall(line):
        top = root if name.startswith("infra") else root / "src"
        parts = name.split(".")
        if parts[0] == "kizami" and not (top / "kizami" / parts[1]).is_dir():
            continue
        module = top.joinpath(*parts)
        owner = module.parent.with_suffix(".py")
        is_in_owner = owner.is_file() and re.search(rf"\b{parts[-1]}\b", owner.read_text("utf-8"))
        if not (module.is_dir() or module.with_suffix(".py").is_file() or is_in_owner):
            yield name


def unlisted_pages(root: Path) -> list[Fault]:
    """Pages of docs that their index has no link to."""
    index = (root / INDEX).read_text("utf-8")
    linked = {link.partition("#")[0] for link in _LINK.findall(index)}
    return [
        Fault(INDEX, 1, f"{path.name} is not listed", "give it a line where a reader would look for it")
        for path in sorted((root / "docs").glob("*.md"))
        if path.name not in linked and path.name != Path(INDEX).name
    ]


def _documents(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])

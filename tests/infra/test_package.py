"""The Lambda package: our own source, no more than the functions need, the same on every machine."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from aws_here.template import HANDLERS, synthesize
from kizami.cdk.parts.modules import needed_files
from kizami.cdk.parts.package import package_files, package_hash, require_packaged, write_zip
from kizami.core.errors import ConfigurationError
from programs.daemon import SOURCES

# For the command line only, which finds credentials as other AWS tools do.
IN_THE_RUNTIME = {"botocore"}


def test_it_holds_what_the_functions_import_and_nothing_else() -> None:
    names = set(package_files({}))
    assert {f"{handler.rpartition('.')[0].replace('.', '/')}.py" for handler in HANDLERS.values()} <= names
    assert {name for name in names if not name.endswith(".py")} == {
        "kizami/mock_api/openapi.json",
        "tzdata/zoneinfo/Asia/Tokyo",
    }
    assert not [name for name in names if name.split("/")[1] in ("cli", "local", "web", "platform")]
    # Of what alerts are made of; nothing that asks a backend.
    of_backend = {name.rpartition("/")[2] for name in names if name.startswith("kizami/backend/")}
    assert of_backend == {
        "__init__.py",
        "health.py",
        "incidents.py",
        "name_patterns.py",
        "targets.py",
        "values.py",
    }
    # What stands beside the handlers' modules and no handler imports.
    beside = {"kizami/aws/backend.py", "kizami/aws/costs/bill.py", "kizami/mock_api/server.py"}
    assert all((SOURCES / name).exists() for name in beside)
    assert not names & beside


def test_it_imports_nothing_that_the_lambda_runtime_lacks_and_all_of_ours_is_in_it() -> None:
    allowed = set(sys.stdlib_module_names) | IN_THE_RUNTIME
    files = package_files({})
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    for name, body in files.items():
        if not name.endswith(".py"):
            continue
        for node in run_at_all(ast.parse(body)):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in imported:
                assert module.partition(".")[0] in allowed or module in modules, (name, module)


def run_at_all(tree: ast.Module) -> list[ast.AST]:
    """Everything but what stands under TYPE_CHECKING."""
    conditions = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    blocks = [node for node in conditions if "TYPE_CHECKING" in ast.dump(node.test)]
    left_out = {id(node) for block in blocks for node in ast.walk(block)}
    return [node for node in ast.walk(tree) if id(node) not in left_out]


def test_what_is_imported_is_followed_to_the_last_module(tmp_path: Path) -> None:
    sources = {
        "ours/__init__.py": "",
        "ours/handler.py": "import json, theirs\nfrom ours.stores import table\ndef f():\n    import ours.late\n",
        "ours/late.py": "from . import data\n",
        "ours/data/__init__.py": "from .reading import NAME\n",
        "ours/data/reading.py": "NAME = 'words.json'\n",
        "ours/data/words.json": "{}",
        "ours/data/other.json": "{}",
        "ours/stores/__init__.py": "",
        "ours/stores/table.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ours.types\n"
        "else:\n    import ours.instead\n",
        "ours/instead.py": "import ours.handler\n",  # a circle
        "ours/types.py": "",
        "ours/unused.py": "",
        "theirs/__init__.py": "",  # beside ours, as in an environment where kizami is installed
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {path.relative_to(tmp_path).as_posix() for path in needed_files(tmp_path, ["ours.handler"])}
    left_out = {"ours/data/other.json", "ours/types.py", "ours/unused.py", "theirs/__init__.py"}
    assert found == set(sources) - left_out


def test_a_function_whose_module_is_not_packed_fails_the_synthesis() -> None:
    with pytest.raises(ConfigurationError, match=r"^kizami\.aws\.new\.handler: is not among HANDLER_MODULES"):
        require_packaged("kizami.aws.new.handler")


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The package of the default deployment as Lambda unpacks it."""
    (package,) = synthesize().directory.glob("asset.*.zip")
    with ZipFile(package) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def run_in(package: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with the package, the standard library and nothing else."""
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=package,
        env={"PYTHONPATH": str(package), "PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.parametrize("handler", HANDLERS.values())
def test_each_handler_loads_from_the_package_alone(handler: str, unpacked: Path) -> None:
    module, _, function = handler.rpartition(".")
    code = f"import {module} as m; assert callable(m.{function}); assert m.__file__.startswith({str(unpacked)!r})"
    done = run_in(unpacked, code)
    assert done.returncode == 0, done.stderr


def test_every_module_of_the_package_loads_from_it_alone(unpacked: Path) -> None:
    names = [name for name in package_files({}) if name.startswith("kizami/") and name.endswith(".py")]
    modules = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names]
    done = run_in(unpacked, f"import {', '.join(modules)}")
    assert done.returncode == 0, done.stderr


def test_the_aggregation_knows_its_time_zone_where_the_runtime_has_none(unpacked: Path) -> None:
    code = "from kizami.aws.aggregation import handler; handler({'Records': []}, None)"
    settings = {"COMPANY_TABLE_NAME": "Company", "POINTS_TABLE_NAME": "Points", "PYTHONTZPATH": ""}
    settings["AGGREGATION_API_BASE_URL"] = "https://users.example.com"
    done = run_in(unpacked, code, AGGREGATION_TZ="Asia/Tokyo", **settings)
    assert done.returncode == 0, done.stderr
    without = run_in(unpacked, code, AGGREGATION_TZ="Europe/Berlin", **settings)  # which is not in the package
    assert "AGGREGATION_TZ: 'Europe/Berlin' is not a time zone" in without.stderr


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC"])
def test_the_zone_of_the_deployment_is_the_one_that_is_packed(name: str) -> None:
    zones = {part for part in package_files({}, name) if part.startswith("tzdata/zoneinfo/")}
    assert {part for part in zones if not part.endswith("__init__.py")} == {f"tzdata/zoneinfo/{name}"}


def test_a_zone_that_only_this_machine_has_cannot_be_deployed() -> None:
    with pytest.raises(ConfigurationError, match="context aggregation_time_zone: 'posix/Asia/Tokyo' is not in"):
        package_files({}, "posix/Asia/Tokyo")


def test_the_same_source_is_the_same_package(tmp_path: Path) -> None:
    files = package_files({"kizami.toml": b"[[targets]]"})
    for path in (tmp_path / "a.zip", tmp_path / "b.zip"):
        write_zip(files, path)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_the_hash_changes_with_any_name_or_content() -> None:
    base = {"a": b"1", "b": b"2"}
    assert package_hash(base) == package_hash(dict(base))
    assert len({package_hash(f) for f in (base, {"a": b"1"}, {"a": b"12", "b": b""}, {"a": b"1", "c": b"2"})}) == 4


def test_files_are_readable_to_the_user_that_lambda_runs_as(tmp_path: Path) -> None:
    write_zip(package_files({}), tmp_path / "package.zip")
    with ZipFile(tmp_path / "package.zip") as archive:
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o644}

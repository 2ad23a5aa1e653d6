"""The Lambda package: our own source, no more than the functions need, the same on every machine."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from infra.package import package_files, package_hash, write_zip

from kizami.errors import ConfigurationError
from template import HANDLERS, synthesize

# For the command line only, which finds credentials as other AWS tools do.
IN_THE_RUNTIME = {"botocore"}


def test_it_holds_what_the_functions_need_and_nothing_of_the_other_home() -> None:
    names = set(package_files(None))
    assert {f"{handler.rpartition('.')[0].replace('.', '/')}.py" for handler in HANDLERS.values()} <= names
    assert {name for name in names if not name.endswith(".py")} == {
        "kizami/mock_api/openapi.json",
        "tzdata/zoneinfo/Asia/Tokyo",
    }
    assert not [name for name in names if name.split("/")[1] in ("cli", "local", "dashboard", "cdk")]


def test_it_imports_nothing_that_the_lambda_runtime_lacks() -> None:
    allowed = set(sys.stdlib_module_names) | IN_THE_RUNTIME | {"kizami"}
    sources = {name: body for name, body in package_files(None).items() if name.endswith(".py")}
    for name, body in sources.items():
        if name.startswith("kizami/mock_api/") and name.endswith(("server.py", "application.py")):
            continue  # the mock API's own HTTP server; no handler imports it
        for node in ast.walk(ast.parse(body)):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {module.partition(".")[0] for module in modules} <= allowed, name


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
    zones = {part for part in package_files(None, name) if part.startswith("tzdata/zoneinfo/")}
    assert {part for part in zones if not part.endswith("__init__.py")} == {f"tzdata/zoneinfo/{name}"}


def test_a_zone_that_only_this_machine_has_cannot_be_deployed() -> None:
    with pytest.raises(ConfigurationError, match="context aggregation_time_zone: 'posix/Asia/Tokyo' is not in"):
        package_files(None, "posix/Asia/Tokyo")


def test_the_same_source_is_the_same_package(tmp_path: Path) -> None:
    files = package_files("[[targets]]")
    for path in (tmp_path / "a.zip", tmp_path / "b.zip"):
        write_zip(files, path)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_the_hash_changes_with_any_name_or_content() -> None:
    base = {"a": b"1", "b": b"2"}
    assert package_hash(base) == package_hash(dict(base))
    assert len({package_hash(f) for f in (base, {"a": b"1"}, {"a": b"12", "b": b""}, {"a": b"1", "c": b"2"})}) == 4


def test_files_are_readable_to_the_user_that_lambda_runs_as(tmp_path: Path) -> None:
    write_zip(package_files(None), tmp_path / "package.zip")
    with ZipFile(tmp_path / "package.zip") as archive:
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o644}

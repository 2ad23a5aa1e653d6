"""The wheel that `make dist` builds: it holds everything, and `kizami up` runs from it without the source."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from programs.command import environment
from programs.daemon import SOURCES, Daemon
from programs.local_processes import hold_port
from programs.mock_elsewhere import command_for

ROOT = SOURCES.parent
# What `make dist` calls, put together there and read here so that the two cannot differ.
(BUILD,) = re.findall(r"^dist:.*\n\t@\$\(BIN\)/python -c '(.*)'$", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built anew, beside no other."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", BUILD.replace('"dist"', repr(str(directory)))], cwd=ROOT, check=True)
    (built,) = directory.glob("kizami-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, what it says it needs, and nothing else."""
    return install(wheel, tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="module")
def installed_with_cdk(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of `kizami[cdk]`."""
    return install(wheel, tmp_path_factory.mktemp("cdk"), "cdk")


def install(wheel: Path, backend: Path, extra: str = "") -> Path:
    venv.create(backend, with_pip=False, symlinks=True)
    python = backend / "bin/python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True, timeout=240)
    (packages,) = backend.glob("lib/python*/site-packages")
    for needed in requirements_of(distribution("kizami"), extra):
        link_into(packages, needed)
    return backend / "bin"


def requirements_of(project: Distribution, extra: str) -> Iterator[Distribution]:
    """What it needs to run, and what that needs, as this environment has it."""
    waiting, seen = [project], set()
    while waiting:
        for needed in map(Requirement, waiting.pop().requires or ()):
            name = canonicalize_name(needed.name)
            if name in seen or (needed.marker and not needed.marker.evaluate({"extra": extra})):
                continue
            seen.add(name)
            waiting.append(distribution(name))
            yield waiting[-1]


def link_into(packages: Path, needed: Distribution) -> None:
    """Let the environment have a package that is here already; nothing is fetched."""
    for top in {path.parts[0] for path in needed.files or () if path.parts[0] not in ("..", "__pycache__")}:
        if not (packages / top).exists():  # several may share a folder, as those of CDK do
            (packages / top).symlink_to(str(needed.locate_file(top)))


def test_it_holds_every_file_of_the_source(wheel: Path) -> None:
    here = {path.relative_to(SOURCES).as_posix() for path in (SOURCES / "kizami").rglob("*") if path.is_file()}
    with ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if name.startswith("kizami/")}
    assert there == {name for name in here if "__pycache__" not in name}
    assert {"kizami/py.typed", "kizami/mock_api/openapi.json", "kizami/web/openapi.json"} <= there


def test_kizami_up_works_with_no_other_file(installed: Path, tmp_path: Path) -> None:
    # Isolated (-I), for a test's PYTHONPATH leads to the source.
    python = [str(installed / "python"), "-I"]
    code = "import kizami; print(kizami.__file__)"
    found = subprocess.run([*python, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert Path(found.stdout.strip()).is_relative_to(installed.parent)
    with hold_port() as port:
        program = [*python, *command_for(port)[1:]]
        with Daemon(tmp_path, "--dashboard-port", "0", program=program) as daemon:
            daemon.wait_for_rows(1)
            page = daemon.wait_for_event("dashboard.served")["url"]
            mock = f"http://127.0.0.1:{port}"
            for address in (page, f"{page}/?lang=ja", f"{page}/api/v1/openapi.json", f"{mock}/openapi.json"):
                with urlopen(address, timeout=60) as answer:
                    assert answer.status == 200
            assert daemon.stop() == 0


def test_the_command_itself_is_installed(installed: Path, tmp_path: Path) -> None:
    env = environment()
    env.pop("PYTHONPATH", None)
    for arguments in (["--version"], ["init"], ["targets"], ["cost"]):
        command = [str(installed / "kizami"), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr


OWN_APP = """
from aws_cdk import App, Stack
from kizami.cdk import SubMinuteSchedule

app = App(outdir="out")
SubMinuteSchedule(Stack(app, "Shop"), "Orders", api_base_url="https://orders.example.com")
app.synth()
"""


def run_own_app(python: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "app.py").write_text(OWN_APP)
    command = [str(python), "-I", "app.py"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=240)


def test_the_constructs_for_cdk_come_with_their_extra_and_pack_nothing_but_kizami(
    installed_with_cdk: Path, tmp_path: Path
) -> None:
    done = run_own_app(installed_with_cdk / "python", tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = (tmp_path / "out").glob("asset.*.zip")
    with ZipFile(package) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"kizami", "tzdata"}


def test_without_the_extra_the_constructs_say_what_they_need(installed: Path, tmp_path: Path) -> None:
    code = "from kizami.cdk import SubMinuteSchedule"
    command = [str(installed / "python"), "-I", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.stderr.endswith("ImportError: kizami.cdk needs the CDK library: pip install 'kizami[cdk]'\n")

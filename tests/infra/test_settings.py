"""The context of a deployment: what is read, and how a mistake is answered at synth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from infra.context import settings_from_context

from aws_here.template import synthesize
from kizami.aggregation.batch import RESERVE_SECONDS
from kizami.cdk.settings import Profile, Settings
from kizami.core.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_without_context_the_defaults_hold() -> None:
    assert settings_from_context({}) == Settings()


def test_values_come_as_text_from_the_command_line_and_typed_from_cdk_json() -> None:
    text = {
        "visibility_seconds": "240",
        "retain_data": "false",
        "profile": "production",
        "region": "ap-northeast-1",
    }
    typed = {"visibility_seconds": 240, "retain_data": False, "profile": "production", "region": "ap-northeast-1"}
    assert settings_from_context(text) == settings_from_context(typed)
    assert settings_from_context(text).profile is Profile.PRODUCTION


def test_the_region_is_the_deployments() -> None:
    manifest = json.loads((synthesize(region="ap-northeast-1").directory / "manifest.json").read_text())
    stack = manifest["artifacts"]["DataCollectionSchedulerStack"]
    assert stack["environment"] == "aws://unknown-account/ap-northeast-1"


@pytest.mark.parametrize(
    ("environment", "context", "region"),
    [
        ({"AWS_REGION": "ap-northeast-1", "CDK_DEFAULT_REGION": "eu-west-1"}, {}, "ap-northeast-1"),
        ({"AWS_DEFAULT_REGION": "ap-northeast-1"}, {}, "ap-northeast-1"),
        ({"CDK_DEFAULT_REGION": "eu-west-1"}, {}, "eu-west-1"),
        ({"AWS_REGION": "", "CDK_DEFAULT_REGION": "eu-west-1"}, {}, "eu-west-1"),
        ({"AWS_REGION": "ap-northeast-1"}, {"region": "eu-west-1"}, "eu-west-1"),  # what is said goes first
        ({}, {}, "us-east-1"),
    ],
)
def test_without_context_the_region_is_the_environments(
    environment: dict[str, str], context: dict[str, str], region: str
) -> None:
    assert settings_from_context(context, environment).region == region


def test_a_wrong_region_of_the_environment_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^AWS_REGION: 'tokyo' is not an AWS region like us-east-1$"):
        settings_from_context({}, {"AWS_REGION": "tokyo"})


def test_cdks_own_context_is_passed_over() -> None:
    assert settings_from_context({"aws:cdk:enable-path-metadata": True, "@aws-cdk/x:y": False}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("visibility_secs", "180", "is not a setting; did you mean visibility_seconds?"),
        ("colour", "180", "is not a setting; known: "),
        ("visibility_seconds", "soon", "'soon' is not a whole number from 1 to 43200"),
        ("visibility_seconds", "29", "29 is below collector_timeout_seconds (30)"),
        ("aggregation_retry_seconds", "43000", "'43000' is not a whole number from 1 to 42300"),
        ("warm_writes", "4000", "'4000' is not a whole number from 4001 to 40000"),
        ("max_receives", "-1", "'-1' is not a whole number from 0 to 1000"),
        ("backfill_concurrency", "1", "'1' is not a whole number from 2 to 1000"),
        ("profile", "prod", "'prod' is not one of standard, production"),
        ("retain_data", "maybe", "'maybe' is not one of true, false"),
        ("region", "tokyo", "'tokyo' is not an AWS region like us-east-1"),
        ("api_base_url", "api.example.com", "must be like https://api.example.com"),
        ("table_name", "a b", "'a b' is not a table name"),
        ("aggregation_api_base_url", "users.example.com", "must be like https://api.example.com"),
        ("aggregation_time_zone", "Tokyo", "is not a time zone; did you mean Asia/Tokyo?"),
        ("aggregation_minutes", "0", "'0' is not a whole number from 1 to 1440"),
        ("aggregation_timeout_seconds", "59", "'59' is not a whole number from 60 to 900"),
        ("points_table_name", "a b", "'a b' is not a table name"),
        ("secret_keys", "alias/mine", "'alias/mine' is not one or more ARNs of KMS keys"),
        (
            "secret_keys",
            f"{KEY},",
            "is not one or more ARNs of KMS keys, with commas between them, like arn:aws:kms:",
        ),
        ("secret_keys", KEY.replace("key/", "alias/"), "for an alias see `aws kms describe-key"),
        ("log_retention_days", "2", "'2' is not one of 1, 7, 14, 30, 90, 365, 3653"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        settings_from_context({name: value})
    assert raised.value.place == f"context {name}"
    assert words in raised.value.problem


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("api_base_url", "https://api.example.com", "say url in its targets"),
        ("api_key_secret", "prod/key", "name the secret in headers of its targets"),
        ("window_lag_seconds", "0", "say lag in its targets"),
        ("mock_api", "http", "no mock API is deployed beside one"),
    ],
)
def test_setting_of_the_one_api_is_refused_beside_a_config(name: str, value: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        settings_from_context({"config": "kizami.toml", name: value})
    assert str(raised.value) == f"context {name}: has no effect with a config: {remedy}"


def test_the_shortest_run_of_the_batch_has_as_much_time_to_work_as_to_end_cleanly() -> None:
    shortest = settings_from_context({"aggregation_timeout_seconds": "60"})
    assert shortest.aggregation_timeout_seconds >= 2 * RESERVE_SECONDS


def test_the_app_answers_a_mistake_with_one_line_and_exit_code_3(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "kizami.toml"
    config.write_text('[[targets]]\nname = "orders"\nurl = "https://api.example.com"\ninterval = "7s"\n')
    from infra.app import main  # CDK starts Node.js when it is imported: not in every process that finds tests

    with pytest.raises(SystemExit) as ended:
        main([f"config={config}"])
    assert ended.value.code == 3
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"kizami: {config}: targets[0].interval: ")


def test_synth_needs_no_credentials_and_no_docker_and_takes_the_region_of_the_environment(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    done = as_a_process(
        CDK_OUTDIR=str(tmp_path / "out"),
        PATH=nowhere,
        AWS_CONFIG_FILE=nowhere,
        AWS_SHARED_CREDENTIALS_FILE=nowhere,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_REGION="ap-northeast-1",
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out" / "DataCollectionSchedulerStack.template.json").exists()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    stack = manifest["artifacts"]["DataCollectionSchedulerStack"]
    assert stack["environment"] == "aws://unknown-account/ap-northeast-1"


def as_a_process(**environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "infra.app"],
        cwd=ROOT,
        env={**clean, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )

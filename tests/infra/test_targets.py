"""Many targets: the same kizami.toml goes into the deployment, checked at synth, its secrets by reference."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from aws_here.template import Template, synthesize
from kizami.core.errors import ConfigurationError

ORDERS = """
[[targets]]
name = "orders"
url = "https://api.example.com"
headers = { Authorization = "secretsmanager:prod/orders", X-Tenant = "ssm:/prod/tenant" }

[[targets]]
name = "off"
url = "https://off.example.com"
enabled = false
headers = { Authorization = "secretsmanager:prod/off" }
"""


def deploy(tmp_path: Path, text: str, **context: str) -> Template:
    path = tmp_path / "kizami.toml"
    path.write_text(text)
    return synthesize(config=str(path), **context)


def test_the_file_is_in_the_package_and_the_functions_are_told(tmp_path: Path) -> None:
    template = deploy(tmp_path, ORDERS)
    (package,) = template.directory.glob("asset.*.zip")
    with ZipFile(package) as archive:
        assert archive.read("kizami.toml").decode() == ORDERS
    for name in ("sender", "collector", "reconciler"):
        assert template.environment(name)["KIZAMI_CONFIG"] == "kizami.toml"
        assert "WINDOW_LAG_SECONDS" not in template.environment(name)


def test_the_collector_may_read_exactly_the_secrets_of_enabled_targets(tmp_path: Path) -> None:
    template = deploy(tmp_path, ORDERS)
    arn = "arn:{AWS::Partition}:"
    secrets = {
        grant for grant in template.grants("collector") if grant[0].partition(":")[0] in ("secretsmanager", "ssm")
    }
    assert secrets == {
        (
            "secretsmanager:GetSecretValue",
            f"{arn}secretsmanager:us-east-1:{{AWS::AccountId}}:secret:prod/orders-??????",
        ),
        ("ssm:GetParameter", f"{arn}ssm:us-east-1:{{AWS::AccountId}}:parameter/prod/tenant"),
    }
    assert not any("secret" in action for action, _ in template.grants("sender"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs at least one [[targets]] table"),
        ("[[targets]\n", "is not valid TOML"),
        ('[[targets]]\nname = "a"\n', "targets[0].url: is required"),
        (
            '[[targets]]\nname = "a"\nurl = "https://x.example"\nenabled = false\n',
            "has no enabled target to poll",
        ),
        (
            '[[targets]]\nname = "a"\nurl = "https://x.example"\nheaders = { Authorization = "env:TOKEN" }\n',
            "target a: headers.Authorization: env: cannot be read on Lambda; use secretsmanager:ID or ssm:NAME",
        ),
        (
            '[[targets]]\nname = "a"\nurl = "https://x.example"\ntimeout = "40s"\n',
            "target a: timeout: 40 s does not fit into the 30 s of the Collector",
        ),
    ],
)
def test_what_lambda_could_not_poll_is_refused_at_synth(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        deploy(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "kizami.toml"))
    assert words in str(raised.value)


def test_sender_and_reconciler_get_cpu_for_as_many_targets_as_there_are(tmp_path: Path) -> None:
    text = "\n".join(f'[[targets]]\nname = "m{n}"\nurl = "https://m{n}.example"\n' for n in range(1000))
    many = deploy(tmp_path, text)
    assert many.function("sender")["MemorySize"] == 1769  # a whole CPU
    assert many.function("reconciler")["MemorySize"] == 1769
    assert many.function("collector")["MemorySize"] == 128  # one message each, however many targets
    assert deploy(tmp_path, text, sender_memory_mb="3008").function("sender")["MemorySize"] == 3008

"""Many targets: the same kizami.toml goes into the deployment, checked at synth, its secrets by reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from aws_here.template import Template, event_sources, flat, synthesize
from kizami.aws.bundles.files import PackagedBundles
from kizami.core.config import parse_config
from kizami.core.errors import ConfigurationError

ORDERS = """
[[targets]]
name = "orders"
url = "https://api.example.com"
headers = { Authorization = "secretsmanager:prod/orders", X-Tenant = "ssm:/prod/tenant" }

[[targets]]
name = "usage"
url = "https://usage.example.com/v1"
query = { since = "{from:unix}", key = "ssm:/prod/usage" }

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


ONE = ORDERS.partition("\n\n")[0] + "\n"


def test_the_file_of_one_target_is_in_the_package_and_the_functions_are_told(tmp_path: Path) -> None:
    template = deploy(tmp_path, ONE)
    (package,) = template.directory.glob("asset.*.zip")
    with ZipFile(package) as archive:
        assert archive.read("kizami.toml").decode() == ONE
    for name in ("sender", "collector", "reconciler"):
        assert template.environment(name)["KIZAMI_CONFIG"] == "kizami.toml"
        assert "WINDOW_LAG_SECONDS" not in template.environment(name)
    assert "LedgerTableName" not in template.document["Outputs"]


def test_the_file_of_several_is_packed_in_pieces_that_the_functions_find_again(tmp_path: Path) -> None:
    template = deploy(tmp_path, ORDERS)
    (package,) = template.directory.glob("asset.*.zip")
    with ZipFile(package) as archive:
        archive.extractall(tmp_path / "package")
    assert not (tmp_path / "package/kizami.toml").exists()
    packed = PackagedBundles(str(tmp_path / "package/bundles"))
    (bundle,) = packed.all()
    assert set(bundle.members) == {"orders", "usage"}, "what is disabled is not polled"
    expected = {target.name: target for target in parse_config(ORDERS).targets}
    assert {name: packed.target(name) for name in expected} == expected
    for name in ("sender", "collector", "reconciler"):
        assert template.environment(name)["KIZAMI_BUNDLES"] == "bundles"


@pytest.mark.parametrize("profile", ["standard", "production"])
@pytest.mark.parametrize("text", [ONE, ORDERS], ids=["one", "several"])
def test_where_a_configuration_is_deployed_there_is_no_mock_api(tmp_path: Path, text: str, profile: str) -> None:
    template = deploy(tmp_path, text, profile=profile)
    kinds = {resource["Type"] for resource in template.document["Resources"].values()}
    assert not [kind for kind in kinds if "ApiGateway" in kind]
    assert "AWS::SecretsManager::Secret" not in kinds, "the mock's key"
    assert "mock" not in str(template.document["Resources"]).lower()
    assert not [output for output in template.document["Outputs"] if "MockApi" in output]
    assert not {"AI_API_BASE_URL", "KIZAMI_API_KEY"} & template.environment("collector").keys()


@pytest.mark.parametrize("profile", ["standard", "production"])
def test_what_stays_keeps_its_logical_id(tmp_path: Path, profile: str) -> None:
    with_mock = synthesize(profile=profile).document["Resources"]
    without = deploy(tmp_path, ONE, profile=profile).document["Resources"]
    assert without.keys() == {id for id in with_mock if not id.startswith("MockApi")}


def test_the_aggregation_beside_a_configuration_needs_a_users_api_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^context aggregation_api_base_url: must say where the users API"
    ):
        deploy(tmp_path, ONE, aggregation="true")
    template = deploy(tmp_path, ONE, aggregation_api_base_url="https://users.example.com")
    assert template.environment("aggregation")["AGGREGATION_API_BASE_URL"] == "https://users.example.com"
    assert not template.resources("AWS::ApiGateway::RestApi")


def test_the_collector_of_bundles_may_insert_keep_the_ledger_and_send_slots_back(tmp_path: Path) -> None:
    template = deploy(tmp_path, ORDERS)
    ledger = template.by_output("LedgerTableName")
    assert ledger["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}
    assert "TableName" not in ledger, "a second stack has its own"
    actions = {action for action, _ in template.grants("collector")}
    assert {"dynamodb:PartiQLInsert", "dynamodb:UpdateItem", "sqs:SendMessage"} <= actions
    environment = template.environment("collector")
    for variable, output in (
        ("QUEUE_URL", "QueueUrl"),
        ("KIZAMI_BACKFILL_QUEUE_URL", "BackfillQueueUrl"),
        ("KIZAMI_DEAD_LETTER_QUEUE_URL", "DeadLetterQueueUrl"),
        ("KIZAMI_LEDGER_TABLE_NAME", "LedgerTableName"),
    ):
        assert environment[variable] == {"Ref": template.output_id(output)}


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
        ("ssm:GetParameter", f"{arn}ssm:us-east-1:{{AWS::AccountId}}:parameter/prod/usage"),
    }
    assert not any("secret" in action for action, _ in template.grants("sender"))


SECURED = """
[[targets]]
name = "usage"
url = "https://api.example.com:8443"
tls = { ca = "certs/ca.pem", cert = "me.pem", key = "secretsmanager:key" }
[targets.auth.oauth2]
token_url = "https://login.example.com:9443/token"
client_id = "ssm:/id"
client_secret = "secretsmanager:client"

[[targets]]
name = "behind"
url = "https://other.example.com:7443"
auth = { basic = ["me", "ssm:/password"] }
proxy = "http://proxy.example.com:3128"
"""


def make_certificates(directory: Path) -> None:
    (directory / "certs").mkdir()
    for name in ("certs/ca.pem", "me.pem"):
        (directory / name).write_text(f"-----BEGIN CERTIFICATE-----\n{name}")


def test_certificates_are_packed_and_every_secret_of_a_target_may_be_read(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    template = deploy(tmp_path, SECURED, profile="production")
    (package,) = template.directory.glob("asset.*.zip")
    with ZipFile(package) as archive:
        assert archive.read("certs/ca.pem").decode().endswith("certs/ca.pem")
        assert archive.read("me.pem").decode().endswith("me.pem")
    read = {resource.rpartition(":")[2] for _, resource in template.grants("collector") if ":ssm:" in resource}
    assert read == {"parameter/id", "parameter/password"}
    kept = {resource.rpartition(":")[2] for _, resource in template.grants("collector") if ":secret:" in resource}
    assert kept == {"client-??????", "key-??????"}
    # And the way out is open for the API, the token endpoint and the proxy, not for what is behind that.
    groups = template.resources("AWS::EC2::SecurityGroup").values()
    ports = {rule["FromPort"] for group in groups for rule in group["Properties"]["SecurityGroupEgress"]}
    assert ports == {443, 8443, 9443, 3128}


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        ('{ ca = "none.pem" }', "tls.ca: {here}/none.pem cannot be read: No such file"),
        ('{ ca = "/etc/ca.pem" }', "tls.ca: /etc/ca.pem must stand beside kizami.toml or in a folder below it"),
        ('{ ca = "../ca.pem" }', "tls.ca: ../ca.pem must stand beside"),
        ('{ ca = "kizami/ca.pem" }', "tls.ca: kizami/ca.pem must stand beside"),
        ('{ cert = "me.pem", key = "me.key" }', "tls.key: a key is not packed with the code; keep it in"),
        ('{ cert = "both.pem" }', "tls.cert: {here}/both.pem has a key in it, which is not packed with the code"),
        ('{ ca = "file:/etc/ca.pem" }', "tls.ca: file: cannot be read on Lambda; use secretsmanager:ID"),
    ],
)
def test_a_certificate_that_cannot_be_packed_is_refused_at_synth(tmp_path: Path, tls: str, words: str) -> None:
    make_certificates(tmp_path)
    (tmp_path / "both.pem").write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(ConfigurationError) as raised:
        deploy(tmp_path, f'[[targets]]\nname = "a"\nurl = "https://x.example"\ntls = {tls}\n')
    assert words.replace("{here}", str(tmp_path)) in str(raised.value)


def test_blocked_targets_and_incidents_stand_in_the_table_and_the_reconciler_writes_only_those(
    tmp_path: Path,
) -> None:
    template = deploy(tmp_path, ORDERS)
    assert "dynamodb:Query" in {action for action, _ in template.grants("collector")}
    writing = [
        statement
        for policy in template.resources("AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "dynamodb:DeleteItem" in statement["Action"]
    ]
    partitions = [each["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"] for each in writing]
    assert sorted(partitions) == [["#alerts"], ["#blocks"]]


def test_the_reconciler_writes_totals_where_records_do_not_stay_for_ever(tmp_path: Path) -> None:
    def written(template: Template) -> list[Any]:
        return [
            statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
            for policy in template.resources("AWS::IAM::Policy").values()
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            if "ForAllValues:StringLike" in statement.get("Condition", {})
        ]

    assert written(synthesize()) == []
    assert written(deploy(tmp_path, 'keep = "90d"\n' + ORDERS)) == [["#hours/*"]]


def test_keep_days_of_the_deployment_must_suit_every_target(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="context keep_days: must be at least a day longer than the lag"):
        deploy(tmp_path, ORDERS.replace("\nname", '\nlag = "2d"\nname', 1), keep_days="2")


def test_the_reconciler_tells_the_topic_and_may_read_the_secrets_of_alerts_only(tmp_path: Path) -> None:
    rule = (
        '[[alerts]]\nto = "secretsmanager:ops/hook"\nsecret = "ssm:/ops/key"\n[[alerts]]\nto = "env:SLACK_URL"\n'
    )
    template = deploy(tmp_path, 'heartbeat = "secretsmanager:ops/alive"\n' + ORDERS + rule)
    grants = dict(template.grants("reconciler"))
    assert "KIZAMI_ALARM_TOPIC_ARN" in template.function("reconciler")["Environment"]["Variables"]
    assert "sns:Publish" in grants
    readable = str([target for action, target in template.grants("reconciler") if "GetSecretValue" in action])
    assert "secret:ops/hook-??????" in readable
    assert "secret:ops/alive-??????" in readable
    assert "parameter/ops/key" in str(grants["ssm:GetParameter"])


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
            '[[targets]]\nname = "a"\nurl = "https://x.example"\n'
            '[[hosts]]\nhost = "x.example"\nrequests = "60/1m"\n',
            "hosts: is obeyed on one machine only; on AWS leave it out, and set intervals that stay below the",
        ),
        (
            '[[targets]]\nname = "a"\nurl = "https://x.example"\nheaders = { Authorization = "env:TOKEN" }\n',
            "target a: headers.Authorization: env: cannot be read on Lambda; use secretsmanager:ID or ssm:NAME",
        ),
        (
            '[[targets]]\nname = "a"\nurl = "https://x.example"\nquery = { t = "{from}", key = "file:/k" }\n',
            "target a: query.key: file: cannot be read on Lambda; use secretsmanager:ID or ssm:NAME",
        ),
        (
            '[[targets]]\nname = "a"\nurl = "https://x.example"\ntimeout = "40s"\n',
            "target a: timeout: 40 s does not fit into the 30 s of the Collector",
        ),
        (
            '[[targets]]\nname = "a"\nurl = "http://127.0.0.1:3000"\n',
            "target a: url: http://127.0.0.1:3000 is the mock API of one machine, which Lambda cannot reach",
        ),
    ],
)
def test_what_lambda_could_not_poll_is_refused_at_synth(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        deploy(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "kizami.toml"))
    assert words in str(raised.value)


def test_a_proxy_that_the_way_out_cannot_be_opened_for_is_refused(tmp_path: Path) -> None:
    text = '[[targets]]\nname = "a"\nurl = "https://x.example"\nproxy = "ssm:/proxy"\n'
    with pytest.raises(ConfigurationError, match="target a: proxy: must be the URL itself"):
        deploy(tmp_path, text, profile="production")


def test_sender_and_reconciler_get_cpu_and_room_for_as_many_bundles_as_there_are(tmp_path: Path) -> None:
    text = "\n".join(f'[[targets]]\nname = "m{n}"\nurl = "https://m{n}.example"\n' for n in range(10_000))
    many = deploy(tmp_path, text, account_concurrency="1000")
    assert many.function("sender")["MemorySize"] == many.function("reconciler")["MemorySize"] == 512
    assert many.environment("reconciler")["KIZAMI_RECONCILE_LIMIT"] == str(129 * 12)
    assert many.function("collector")["MemorySize"] == 256  # a bundle each, however many there are
    assert (
        deploy(tmp_path, text, account_concurrency="1000", sender_memory_mb="3008").function("sender")[
            "MemorySize"
        ]
        == 3008
    )


@pytest.mark.parametrize(("targets", "most"), [(2, 10), (100, 9), (1000, 2)])
def test_a_batch_of_bundles_that_no_function_has_descriptors_for_is_refused(
    tmp_path: Path, targets: int, most: int
) -> None:
    text = "\n".join(f'[[targets]]\nname = "m{n}"\nurl = "https://m{n}.example"\n' for n in range(targets))
    assert (
        event_sources(deploy(tmp_path, text, collector_batch_size=str(most)), "collector")[0]["BatchSize"] == most
    )
    if most < 10:
        with pytest.raises(ConfigurationError) as raised:
            deploy(tmp_path, text, collector_batch_size="10")
        assert raised.value.place == "context collector_batch_size"
        assert raised.value.problem.endswith(f"1,024 file descriptors; set it to {most} at most")


def with_secrets(reference: str, number: int = 500) -> str:
    table = '[[targets]]\nname = "m{0}"\nurl = "https://m{0}.example"\nheaders = {{ X-Api-Key = "{1}" }}\n'
    return "\n".join(table.format(each, reference.format(each)) for each in range(number))


SECRETS = "arn:{AWS::Partition}:secretsmanager:us-east-1:{AWS::AccountId}:secret:"


def readable(template: Template) -> set[str]:
    return {resource for action, resource in template.grants("collector") if "GetSecretValue" in action}


@pytest.mark.parametrize("profile", ["standard", "production"])
def test_1000_secrets_are_granted_by_their_folder_and_keys_of_one_secret_by_its_name(
    tmp_path: Path, profile: str
) -> None:
    template = deploy(tmp_path, with_secrets("secretsmanager:prod/keys/{0}", 1000), profile=profile)
    assert readable(template) == {f"{SECRETS}prod/keys/*"}
    (tmp_path / "shared").mkdir()
    template = deploy(tmp_path / "shared", with_secrets("secretsmanager:prod/all#m{0}", 1000), profile=profile)
    assert readable(template) == {f"{SECRETS}prod/all-??????"}


@pytest.mark.parametrize("profile", ["standard", "production"])
def test_arns_and_names_without_a_folder_are_granted_singly_beside_folders(tmp_path: Path, profile: str) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:prod/other-AbCdEf"
    text = with_secrets("secretsmanager:prod/{0}", 1000)
    text += with_secrets(f"secretsmanager:{arn}#{{0}}", 1).replace("m0", "by-arn")
    text += with_secrets("secretsmanager:top", 1).replace("m0", "by-name")
    template = deploy(tmp_path, text, profile=profile)
    assert readable(template) == {f"{SECRETS}prod/*", arn, f"{SECRETS}top-??????"}


@pytest.mark.parametrize("reference", ["secretsmanager:key{0}", "secretsmanager:arn:aws:x:y:z:secret:prod/{0}"])
def test_many_secrets_without_a_folder_are_refused_with_the_remedy(tmp_path: Path, reference: str) -> None:
    with pytest.raises(ConfigurationError, match="name them like kizami/NAME, or keep many in one"):
        deploy(tmp_path, with_secrets(reference))


def test_a_partial_arn_is_granted_with_the_six_characters_that_secrets_manager_adds(tmp_path: Path) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:prod/orders"
    parameter = "arn:aws:ssm:us-east-1:111122223333:parameter/prod/tenant"
    text = "".join(
        with_secrets(reference, 1).replace("m0", name)
        for name, reference in {
            "partial": f"secretsmanager:{arn}",
            "key": f"secretsmanager:{arn}/keys#a",
            "whole": f"secretsmanager:{arn}-AbC123",
            "parameter": f"ssm:{parameter}",
        }.items()
    )
    template = deploy(tmp_path, text)
    assert readable(template) == {f"{arn}-??????", f"{arn}/keys-??????", f"{arn}-AbC123"}
    assert ("ssm:GetParameter", parameter) in template.grants("collector")


KEYS = [f"arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-12345678901{n}" for n in range(2)]


def decrypting(template: Template, name: str) -> dict[str, Any]:
    """The keys of secrets by the service through which a function may decrypt with them."""
    role = {"Ref": template.function(name)["Role"]["Fn::GetAtt"][0]}
    return {
        flat(statement["Condition"]["StringEquals"]["kms:ViaService"]): statement["Resource"]
        for policy in template.resources("AWS::IAM::Policy").values()
        if role in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "kms:Decrypt" and "arn:aws:kms" in str(statement["Resource"])
    }


@pytest.mark.parametrize("profile", ["standard", "production"])
def test_readers_of_secrets_may_decrypt_with_their_keys_through_that_service_only(
    tmp_path: Path, profile: str
) -> None:
    text = 'heartbeat = "ssm:/ops/alive"\n' + ORDERS
    context = {"profile": profile, "aggregation_api_base_url": "https://users.example.com"}
    template = deploy(tmp_path, text, secret_keys=",".join(KEYS), **context)
    services = {kind: f"{kind}.us-east-1.{{AWS::URLSuffix}}" for kind in ("secretsmanager", "ssm")}
    assert decrypting(template, "collector") == dict.fromkeys(services.values(), KEYS)
    assert decrypting(template, "reconciler") == {services["ssm"]: KEYS}
    assert decrypting(template, "aggregation") == {services["secretsmanager"]: KEYS}, "of the companies' keys"
    assert not any(decrypting(template, name) for name in ("sender", "dispatcher"))
    assert "arn:aws:kms" not in str(deploy(tmp_path, text, **context).document)


def test_the_secret_of_a_single_api_may_be_under_a_key_of_ones_own_too() -> None:
    context = {"api_base_url": "https://api.example.com", "api_key_secret": "prod/key"}
    template = synthesize(secret_keys=f"{KEYS[0]},{KEYS[0]}", **context)
    assert decrypting(template, "collector") == {"secretsmanager.us-east-1.{AWS::URLSuffix}": KEYS[0]}


def test_a_key_of_another_region_cannot_be_that_of_a_secret(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^context secret_keys: arn:\S+ is not in eu-west-1, where the"):
        deploy(tmp_path, ORDERS, secret_keys=KEYS[0], region="eu-west-1")

"""By which way AWS is reached: endpoints in every partition, proxies and certificates, as the environment says."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from botocore.endpoint_provider import EndpointProvider
from botocore.loaders import create_loader

import fakes.fault_server as faults
from aws_here.local_aws import lead_to
from fakes.authority import Authority, Pair
from fakes.fault_server import FaultServer
from fakes.proxy_server import ProxyServer
from kizami.aws.client.account import find_endpoint, find_proxy
from kizami.aws.client.endpoints import service_url
from kizami.aws.client.json_client import AwsError, JsonClient
from kizami.core.access.auth import basic
from kizami.core.errors import ConfigurationError

OK = faults.raw(b'{"Answer": 42}')
BOTOCORE = create_loader()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to("http://127.0.0.1:9", monkeypatch)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("service", ["sqs", "dynamodb", "secretsmanager", "ssm"])
def test_the_endpoint_is_botocores_in_every_region_of_every_partition(service: str) -> None:
    partitions: Any = BOTOCORE.load_data("partitions")
    rules = EndpointProvider(BOTOCORE.load_service_model(service, "endpoint-rule-set-1"), partitions)
    regions = [name for part in partitions["partitions"] for name in part["regions"] if "global" not in name]
    assert len(regions) > 40
    for region, fips, dual_stack in product(regions, (False, True), (False, True)):
        theirs = rules.resolve_endpoint(Region=region, UseFIPS=fips, UseDualStack=dual_stack).url
        assert service_url(service, region, fips=fips, dual_stack=dual_stack) == f"{theirs}/"


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, "https://sqs-fips.us-east-1.amazonaws.com/"),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "True"}, "https://sqs.us-east-1.api.aws/"),
        ({"AWS_USE_FIPS_ENDPOINT": "false"}, "https://sqs.us-east-1.amazonaws.com/"),
        ({"AWS_USE_FIPS_ENDPOINT": "true", "AWS_ENDPOINT_URL": "http://here:1"}, "http://here:1/"),
        (
            {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true", "AWS_ENDPOINT_URL": "http://here:1"},
            "https://sqs.us-east-1.amazonaws.com/",
        ),
    ],
)
def test_the_environment_chooses_the_endpoint(
    variables: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_endpoint("sqs", "us-east-1") == url


def test_a_services_own_variable_has_awss_name_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://secrets:1")
    assert find_endpoint("secretsmanager", "us-east-1") == "http://secrets:1/"


def test_neither_true_nor_false_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "yes")
    with pytest.raises(ConfigurationError, match=r"^AWS_USE_FIPS_ENDPOINT: must be true or false$"):
        find_endpoint("sqs", "us-east-1")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.sign("server")


def test_a_call_goes_through_the_proxy_and_believes_the_bundle(
    authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = JsonClient("sqs", "AmazonSQS")
    with FaultServer(OK, OK, tls=authority.serve(pair)) as server, ProxyServer(basic("me", "s3cret")) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:s3cret@"))
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.file))
        assert [client.call("ListQueues", {}) for _ in range(2)] == [{"Answer": 42}] * 2
        assert [seen.method for seen in proxy.requests] == ["CONNECT"]  # and the connection is kept
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert client.call("ListQueues", {}) == {"Answer": 42}
        assert len(proxy.requests) == 1
        monkeypatch.delenv("AWS_CA_BUNDLE")
        with pytest.raises(AwsError, match="Unreachable"):
            client.call("ListQueues", {}, 2)
    client.close()


def test_a_proxy_may_be_written_without_http_as_curl_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "proxy.example.com:3128")
    found = find_proxy("https://sqs.us-east-1.amazonaws.com/")
    assert found
    assert (found.host, found.port) == ("proxy.example.com", 3128)
    assert find_proxy("http://127.0.0.1:9/") is None


def test_a_wrong_proxy_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:s3cret@proxy.example.com")
    with pytest.raises(
        ConfigurationError, match=r"^HTTPS_PROXY: must be like http://proxy\.example\.com:3128"
    ) as e:
        find_proxy("https://sqs.us-east-1.amazonaws.com/")
    assert "s3cret" not in str(e.value)


@pytest.mark.parametrize(
    ("text", "words"), [(None, "No such file or directory"), ("no PEM", "is not a file of PEM")]
)
def test_a_bundle_that_cannot_be_used_is_named(
    text: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    if text is not None:
        bundle.write_text(text)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    with pytest.raises(ConfigurationError, match=f"^AWS_CA_BUNDLE: .*{words}"):
        JsonClient("sqs", "AmazonSQS").call("ListQueues", {})

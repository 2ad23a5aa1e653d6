"""What `[[alerts]]` asks for is checked at synth: what the reconciler could not obey is refused in one line."""

from __future__ import annotations

import json

import pytest

from kizami.aws.alerts.packaged import read_alerts
from kizami.aws.bundles.files import FOLDER
from kizami.cdk.foundation import read_deployable
from kizami.cdk.parts.alerting import maintenance_zones, told_urls
from kizami.cdk.parts.configuration import bundle_files
from kizami.cdk.parts.package import package_files
from kizami.cdk.settings import Settings
from kizami.core.errors import ConfigurationError
from kizami.core.targets.bundles import make_bundles

SHOP = """
[[targets]]
name = "shop"
url = "https://shop.example"
values = { orders = "/orders", carts = "/carts" }
[[targets]]
name = "chat"
url = "https://chat.example"
"""


def rule(when: str, to: str = "https://hook.example", more: str = "") -> str:
    return f'{SHOP}[[alerts]]\nto = "{to}"\nwhen = ["{when}"]\n{more}\n'


@pytest.mark.parametrize(
    ("text", "settings", "problem"),
    [
        (rule("fails", "http://127.0.0.1:8000"), Settings(), r"alerts\[0\].to: http:// is for one machine"),
        (f'heartbeat = "http://127.0.0.1:8000"\n{SHOP}', Settings(), "heartbeat: http:// is for one machine"),
        (
            rule("fails", more='secret = "env:KEY"'),
            Settings(),
            r"alerts\[0\].secret: env: cannot be read",
        ),
        (
            rule("differs by 5% from the same time last week"),
            Settings(keep_days=7),
            "needs -c keep_days=8 at least",
        ),
    ],
)
def test_what_cannot_be_obeyed_on_aws_is_refused(text: str, settings: Settings, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_deployable(text, settings)


def test_conditions_that_would_read_too_many_counts_are_refused_with_their_number() -> None:
    table = '[[targets]]\nname = "shop/{0}"\nurl = "https://shop.example/{0}"\npath = "/?f={{from}}"\n'
    targets = "".join(table.format(number) for number in range(6))
    text = f'{targets}[[alerts]]\nto = "env:SLACK"\nwhen = ["sum of 24h above 5", "above 7"]\n'
    with pytest.raises(ConfigurationError) as refused:
        read_deployable(text, Settings())
    told = '"sum of 24h above 5" would read 103,680 counts in each run of the reconciler, all conditions 104,040;'
    assert told in str(refused.value)
    read_deployable(text.replace("[[alerts]]", '[[alerts]]\ntargets = ["shop/1"]'), Settings())


def test_rules_and_the_metrics_they_watch_are_packed_with_the_bundles() -> None:
    window = "[[maintenance]]\nfrom = 2025-12-02T10:00:00+09:00\nto = 2025-12-03T10:00:00+09:00"
    text = 'heartbeat = "ssm:/ops/alive"\n' + rule("above 5", more=f'targets = ["shop/o*"]\n{window}')
    config = read_deployable(text, Settings())
    files = bundle_files(text, make_bundles(config.enabled_targets))
    packed = read_alerts(json.loads(files[f"{FOLDER}/alerts.json"]))
    assert packed.settings == config.alerts
    assert packed.watched == {"above 5": [("shop/orders", "shop")]}


def test_what_the_file_says_of_where_receivers_are_is_what_the_network_lets_out() -> None:
    head = 'heartbeat = "https://alive.example:8443/me"\n'
    alerts = read_deployable(head + rule("fails") + '[[alerts]]\nto = "ssm:/ops/hook"\n', Settings()).alerts
    assert told_urls(alerts) == ["https://alive.example:8443/me", "https://hook.example"]


def test_the_zones_of_maintenance_windows_are_in_the_package() -> None:
    window = '[[maintenance]]\nweekly = "Sun 02:00-04:00"\ntime_zone = "Europe/Berlin"\n'
    zones = maintenance_zones(read_deployable(SHOP + window, Settings()).alerts)
    assert zones == {"Europe/Berlin"}
    packed = {name for name in package_files({}, "Asia/Tokyo", *zones) if name.startswith("tzdata/zoneinfo/")}
    assert {f"tzdata/zoneinfo/{part}" for part in ("Europe/Berlin", "Asia/Tokyo", "Europe/__init__.py")} <= packed

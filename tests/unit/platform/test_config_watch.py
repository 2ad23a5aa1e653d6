"""A configuration file that changes is news once, whenever it changes."""

from __future__ import annotations

from pathlib import Path

from kizami.platform.config_file import load_config
from kizami.platform.config_watch import ConfigWatch, FollowedConfig


def write_target(path: Path, name: str) -> None:
    path.write_text(f'[[targets]]\nname = "{name}"\nurl = "http://127.0.0.1:3000"\n')


def test_a_change_is_told_once_also_one_between_reading_the_file_and_watching_it(tmp_path: Path) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    settings = load_config(path)
    write_target(path, "orders")
    watch = ConfigWatch(settings)
    news = watch.new_config()
    assert news is not None
    assert [target.name for target in news.targets] == ["orders"]
    assert watch.new_config() is None
    watch.ask()
    assert watch.new_config() == news


def test_a_file_that_stays_as_it_was_is_no_news(tmp_path: Path) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    assert ConfigWatch(load_config(path)).new_config() is None


def test_who_follows_the_file_sees_each_version_that_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    followed = FollowedConfig(load_config(path))
    assert [target.name for target in followed().config.targets] == ["calls"]
    path.write_text("[[targets")
    assert [target.name for target in followed().config.targets] == ["calls"]
    write_target(path, "orders")
    found = followed()
    assert ([target.name for target in found.config.targets], found.path) == (["orders"], path)
    path.unlink()
    assert followed() == found

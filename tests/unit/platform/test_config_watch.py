"""A configuration file that changes is news once, whenever it changes."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from kizami.core.config import Config
from kizami.platform import user_files
from kizami.platform.config_file import load_config
from kizami.platform.config_watch import ConfigWatch, FollowedConfig
from programs.daemon import wait_for
from programs.hanging_mount import hanging_mount


@pytest.fixture(autouse=True)
def _logs_reach_caplog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("kizami"), "propagate", True)


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


def test_a_file_that_appears_where_it_was_looked_for_is_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watch = ConfigWatch(load_config(None))
    assert watch.new_config() is None
    write_target(tmp_path / "kizami.toml", "calls")
    news = watch.new_config()
    assert news is not None
    assert [target.name for target in news.targets] == ["calls"]
    watch.accept()
    assert (watch.in_force.config, watch.in_force.path) == (news, Path("kizami.toml"))


def test_where_there_is_still_no_file_who_asks_gets_what_is_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watch = ConfigWatch(load_config(None))
    watch.ask()
    assert watch.new_config() == Config()
    assert watch.new_config() is None
    (tmp_path / "kizami.toml").write_text("broken")
    wait_for(lambda: watch.new_config() is None and watch.refusal, "the refusal")
    (tmp_path / "kizami.toml").unlink()
    assert watch.new_config() == Config()
    assert watch.refusal is None


def test_a_half_written_file_is_refused_once_it_stays_so_and_taken_when_it_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    watch = ConfigWatch(load_config(path))
    whole = path.read_text().replace("calls", "orders")
    for length in (5, 20):
        path.write_text(whole[:length])
        assert watch.new_config() is None
    assert caplog.records == []  # it grows
    for _ in range(5):
        assert watch.new_config() is None
    (line,) = caplog.records
    assert vars(line)["event"] == "config.refused"
    assert watch.refusal == vars(line)["reason"]
    assert watch.in_force.config.targets[0].name == "calls"
    path.write_text(whole)
    news = watch.new_config()
    assert news is not None
    watch.accept()
    assert (news.targets[0].name, watch.refusal, len(caplog.records)) == ("orders", None, 1)


def test_a_file_that_is_removed_leaves_the_last_good_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    settings = load_config(path)
    watch = ConfigWatch(settings)
    path.unlink()
    for _ in range(5):
        assert watch.new_config() is None
    assert watch.in_force == settings
    (line,) = caplog.records
    assert vars(line)["reason"].startswith(f"{path}: was removed; put it back")
    write_target(path, "calls")
    assert watch.new_config() == settings.config
    watch.accept()
    assert watch.refusal is None


def test_what_waits_to_be_used_is_dropped_once_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    watch = ConfigWatch(load_config(path))
    for _ in range(2):
        write_target(path, "orders")
        news = watch.new_config()
        assert news is not None
        assert news != watch.in_force.config
        path.write_text("[[targets")
        assert watch.new_config() is None  # it may be half written
        assert watch.new_config() == watch.in_force.config
        assert watch.new_config() is None
        watch.accept()
        assert [target.name for target in watch.in_force.config.targets] == ["calls"]
        assert watch.refusal is not None


def test_what_the_daemon_refuses_leaves_what_is_in_force(tmp_path: Path) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    settings = load_config(path)
    watch = ConfigWatch(settings)
    write_target(path, "orders")
    assert watch.new_config()
    watch.refuse("a secret is not set")
    watch.accept()  # of a pause, say, which comes with the old configuration
    assert (watch.in_force, watch.refusal) == (settings, "a secret is not set")


def test_a_file_that_may_not_be_read_is_tried_again_though_it_looks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kizami.toml"
    write_target(path, "calls")
    watch = ConfigWatch(load_config(path))
    write_target(path, "orders")
    monkeypatch.setattr(user_files, "_require_file", refuse)
    for _ in range(5):
        assert watch.new_config() is None
    (line,) = caplog.records
    assert vars(line)["reason"] == f"{path}: cannot be read: Permission denied"
    monkeypatch.undo()
    news = watch.new_config()
    assert news is not None
    assert news.targets[0].name == "orders"


def refuse(handle: int, limit: int) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_file_on_a_mount_that_hangs_is_refused_once_and_read_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(user_files, "PATIENCE_SECONDS", 0.2)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    path = mounted / "kizami.toml"
    write_target(path, "calls")
    watch = ConfigWatch(load_config(path))
    with hanging_mount(mounted) as mount:
        mount.hang()
        for _ in range(5):
            assert watch.new_config() is None
        (line,) = caplog.records
        assert "cannot be read: no answer within" in vars(line)["reason"]
        mount.answer()
        assert wait_for(watch.new_config, "the configuration").targets[0].name == "calls"

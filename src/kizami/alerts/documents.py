"""An incident as both backends keep it: members and notices as one JSON text, the rest beside it (pure)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kizami.backend.incidents import Incident, Kind, Member, Notice
from kizami.core.epoch import from_ms, from_seconds, to_ms, to_seconds


def write_document(incident: Incident) -> str:
    """What is kept of its members and of who was told."""
    members = [_write_member(member) for member in incident.members.values()]
    notices = {name: _write_notice(notice) for name, notice in incident.notices.items()}
    return json.dumps({"members": members, "notices": notices}, ensure_ascii=False, separators=(",", ":"))


def read_members(document: str) -> dict[str, Member]:
    """Its members, by name."""
    return {each["name"]: _read_member(each) for each in json.loads(document)["members"]}


def read_notices(document: str) -> dict[str, Notice]:
    """Who was told what."""
    return {name: _read_notice(each) for name, each in json.loads(document)["notices"].items()}


def _write_member(member: Member) -> dict[str, Any]:
    written = {
        "name": member.name,
        "kinds": sorted(kind.value for kind in member.kinds),
        "since": to_ms(member.since),
        "detail": member.detail or None,
        "firstSlot": None if member.first_slot is None else to_seconds(member.first_slot),
        "clearSince": _ms(member.clear_since),
        "answersSince": _ms(member.answers_since),
        "began": _ms(member.began),
        "cause": member.cause,
    }
    return {name: value for name, value in written.items() if value is not None}


def _read_member(each: Mapping[str, Any]) -> Member:
    first = each.get("firstSlot")
    return Member(
        each["name"],
        frozenset(map(Kind, each["kinds"])),
        from_ms(each["since"]),
        each.get("detail", ""),
        None if first is None else from_seconds(first),
        _moment(each.get("clearSince")),
        _moment(each.get("answersSince")),
        _moment(each.get("began")),
        each.get("cause"),
    )


def _write_notice(notice: Notice) -> list[Any]:
    return [notice.messages, _ms(notice.last_at), _ms(notice.told_since), notice.members]


def _read_notice(each: list[Any]) -> Notice:
    messages, last_at, told_since, members = each
    return Notice(messages, _moment(last_at), _moment(told_since), members)


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else to_ms(instant)


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_ms(milliseconds)

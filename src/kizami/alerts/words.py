"""How messages are put, in English and Japanese: the pieces that texts are made of (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kizami.backend.incidents import Kind

Words = Mapping[str, str]

_ENGLISH = {
    "backend": "kizami",
    "company": "company {name}",
    "more": "{name} and {count} more",
    "since": "{who}: {what} since {time}",
    "still": "still: {text}",
    "grown": "{text} (more than before: {count})",
    "dead_slots": ", {count} slots dead",
    "dead_slot": ", 1 slot dead",
    "recovered": "{who}: recovered at {time}",
    "filled": "; {stored} of {expected} slots filled",
    "coverage": "; coverage of 24 h {percent}%",
    "unfilled": "{name}: {count} not filled: {why}",
    "why_dead": "dead letters; `kizami dead-letters redrive` asks for them again",
    "why_pending": "still on the queue",
    "why_missing": "missing; `kizami backfill` asks for them",
    "why_lost": 'missing for good: it is not polled any more, or its API can only say "now"',
    "test": "kizami: this is a test",
    "test_text": "If you can read this, alerts arrive here.",
    "member": "{name}: {detail}",
    "others": "… and {count} more",
    "acknowledge": "kizami alerts acknowledge {number}",
    "number": "{condition} ({detail})",
    Kind.FAILS.value: "fails",
    Kind.SILENT.value: "no record in the last minute",
    Kind.LATE.value: "records come late",
    Kind.DEAD.value: "slots have died",
    "backend_late": "requests leave late, half of them by more than {detail}",
    Kind.DISK_FULL.value: "the disk is full",
    Kind.QUEUE_STUCK.value: "the queue does not move ({detail} waiting)",
    Kind.AGGREGATION_FAILED.value: "aggregation failed",
}

_JAPANESE = {
    "backend": "kizami",
    "company": "会社 {name}",
    "more": "{name} ほか {count} 件",
    "since": "{who}: {what}（{time} から）",
    "still": "継続中: {text}",
    "grown": "{text}（対象が増えました: {count} 件）",
    "dead_slots": "、デッドレター {count} 件",
    "dead_slot": "、デッドレター 1 件",
    "recovered": "{who}: {time} に復旧しました",
    "filled": "。スロット {expected} 件中 {stored} 件を補完しました",
    "coverage": "。24 時間の充足率 {percent}%",
    "unfilled": "{name}: {count} 件は未補完: {why}",
    "why_dead": "デッドレター。`kizami dead-letters redrive` で再投入できます",
    "why_pending": "まだキューにあります",
    "why_missing": "欠落。`kizami backfill` で収集できます",
    "why_lost": "欠落のまま: もう収集されていないか、API が現在の値しか返せません",
    "test": "kizami: これはテストです",
    "test_text": "このメッセージが読めれば、通知はここに届きます。",
    "member": "{name}: {detail}",
    "others": "… ほか {count} 件",
    "acknowledge": "kizami alerts acknowledge {number}",
    "number": "{condition}（{detail}）",
    Kind.FAILS.value: "失敗しています",
    Kind.SILENT.value: "直近 1 分間に記録がありません",
    Kind.LATE.value: "記録が遅れています",
    Kind.DEAD.value: "スロットがデッドレターになりました",
    "backend_late": "リクエストの送信が遅れています（半数が {detail} 以上の遅れ）",
    Kind.DISK_FULL.value: "ディスクがいっぱいです",
    Kind.QUEUE_STUCK.value: "キューが動いていません（待ち {detail} 件）",
    Kind.AGGREGATION_FAILED.value: "集計に失敗しました",
}

WORDS: Mapping[str, Words] = MappingProxyType({"en": _ENGLISH, "ja": _JAPANESE})

"""Why no answer came: one short cause for each kind of failure, with its remedy, in English and Japanese (pure).

libcurl and Python name failures differently; both clients choose a kind here, so that logs, dead letters, alerts
and the page say the same on one machine and on AWS. `{at}` is the host and port, or a name.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from kizami.core.errors import ApiUnreachable


class Cause(NamedTuple):
    """What happened in both languages, and what helps."""

    english: str
    japanese: str
    remedy: str


CAUSES = {
    "refused": Cause(
        "connection refused by {at}",
        "{at} が接続を拒否",
        "is its server up, and are host and port of url right?",
    ),
    "reset": Cause(
        "connection reset by {at}",
        "{at} が接続をリセット",
        "look into the log of the server, or of a proxy or firewall on the way",
    ),
    "no route": Cause(
        "no route to {at}",
        "{at} への経路なし",
        "is the network of this machine up, and the address in url right?",
    ),
    "no connection": Cause(
        "no connection to {at}",
        "{at} に接続できません",
        "is its server up, and are host and port of url right?",
    ),
    "unknown name": Cause(
        "host name {at} not found",
        "ホスト名 {at} が見つかりません",
        "is the host in url spelt right? `getent hosts` asks this machine's name servers",
    ),
    "no name server": Cause(
        "host name {at} cannot be resolved at the moment",
        "ホスト名 {at} を現在解決できません",
        "is the network of this machine up, and /etc/resolv.conf right?",
    ),
    "no answer": Cause(
        "{at} closed the connection without an answer",
        "{at} が応答せずに接続を切断",
        "look into the log of the server; is url right, or should it begin with https://?",
    ),
    "cut short": Cause(
        "{at} closed the connection in the middle of the answer",
        "{at} が応答の途中で接続を切断",
        "look into the log of the server, or of a proxy on the way",
    ),
    "other protocol": Cause(
        "{at} does not answer in HTTP/1.1 (only HTTP/2 without TLS, or another protocol)",
        "{at} が TLS なしの HTTP/2 か別のプロトコルで応答",
        "HTTP/2 without TLS (h2c) is not supported: give url a port with HTTP/1.1, or with TLS (https://)",
    ),
    "broken answer": Cause(
        "{at} answers with invalid HTTP",
        "{at} の応答が HTTP として不正",
        "is url right? If so, only the server or a proxy on the way can mend it",
    ),
    "large headers": Cause(
        "the response headers of {at} are too large",
        "{at} の応答ヘッダーが大きすぎます",
        "only the server can send fewer: at most 64 KiB each and 300 KiB in all are read",
    ),
    "no handshake": Cause(
        "TLS handshake with {at} failed",
        "{at} との TLS ハンドシェイクに失敗",
        "does the server speak TLS 1.2 or newer on this port? Without TLS, url begins with http://",
    ),
    "refused by proxy": Cause(
        "the proxy refuses to connect to {at} (status {also})",
        "プロキシがステータス {also} で {at} への接続を拒否",
        "check proxy, or HTTPS_PROXY of the environment, and its user and password",
    ),
}
_OF_ERRNO = {
    "ECONNREFUSED": "refused",
    "ECONNRESET": "reset",
    "EPIPE": "reset",
    "ECONNABORTED": "reset",
    "EHOSTUNREACH": "no route",
    "ENETUNREACH": "no route",
    "EADDRNOTAVAIL": "no route",
}
# Others that alerts are often about.
_ALSO_JAPANESE = {
    "no complete answer within {at} s": "{at} 秒以内に応答が完了しません",
    "host name {at} was not resolved within {also} s": "ホスト名 {at} を {also} 秒以内に解決できません",
    "the body is larger than {at} bytes": "応答の本文が {at} バイトを超えています",
    "status {at}, expected {also}: a rate limit": "ステータス {at}（レート制限）",
    "status {at}, expected {also}": "{also} ではなくステータス {at}",
    "the certificate of the server is not trusted (self-signed)": "サーバーの証明書が自己署名のため信頼できません",
    "the certificate of the server is not trusted (its authority is unknown here)": (
        "サーバーの証明書の認証局が不明のため信頼できません"
    ),
    "the certificate of the server has expired": "サーバーの証明書が期限切れ",
    "the certificate of the server is not valid yet": "サーバーの証明書がまだ有効ではありません",
    "the certificate of the server is for another name": "サーバーの証明書のホスト名が一致しません",
    "our certificate has expired, says the server": "クライアント証明書が期限切れ",
    "the server asks for a certificate of ours": "サーバーがクライアント証明書を要求",
    "the server does not accept our certificate": "サーバーがクライアント証明書を拒否",
    "no TLS is spoken there": "接続先が TLS に対応していません",
}


def unreachable(kind: str, at: str, also: str = "", setting: str = "url") -> ApiUnreachable:
    """The failure of that kind to reach `at`, which the setting names."""
    cause = CAUSES[kind]
    return ApiUnreachable(cause.english.format(at=at, also=also), cause.remedy.replace("url", setting))


def kind_of_errno(name: str | None) -> str | None:
    """The kind of failure that a system's error such as `ECONNREFUSED` means; None if it says nothing here."""
    return _OF_ERRNO.get(name or "")


def place_of(host: str, port: int | None) -> str:
    """`HOST:PORT`, as causes name it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cause_in(cause: str, language: str) -> str:
    """The cause in that language, with its remedy as it is; one that has no words of its own there stays."""
    problem, mark, remedy = cause.partition("; ")
    for pattern, japanese in _japanese() if language == "ja" else ():
        if match := pattern.fullmatch(problem):
            return japanese.format(**match.groupdict()) + mark + remedy
    return cause


@cache
def _japanese() -> list[tuple[re.Pattern[str], str]]:
    words = {each.english: each.japanese for each in CAUSES.values()} | _ALSO_JAPANESE
    return [(re.compile(_pattern(english)), japanese) for english, japanese in words.items()]


def _pattern(english: str) -> str:
    return re.escape(english).replace(r"\{at\}", r"(?P<at>\S+)").replace(r"\{also\}", r"(?P<also>.+)")

"""How each target is asked: what its requests have in common, and the secrets of now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kizami.core.access.auth import OAuth2Auth, authorization
from kizami.core.access.proxy import Proxy, read_proxy
from kizami.core.access.tls import Tls
from kizami.core.access.tokens import MAX_TOKEN_ANSWER_BYTES, TOKEN_TIMEOUT_SECONDS, KeptToken
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.redaction import KNOWN
from kizami.core.requests.query import encode_query
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.http.handle import NO_SECRETS, RequestProfile, SentSecrets, TlsFiles, is_loopback
from kizami.local.http.secrets import SecretValues
from kizami.local.http.tls_files import CertificateFiles


@dataclass(slots=True, eq=False)
class TokenClient:
    """An OAuth2 client that many targets may share: its token, and how its token endpoint is asked."""

    auth: OAuth2Auth
    profile: RequestProfile
    token: KeptToken
    before: str | None = None  # the token before it


@dataclass(slots=True)
class TargetAccess:
    """How a target is asked.

    Secrets that stay the same are in the profile; those that may change, by `files` or with the tokens of a
    `client`, are in `secrets` and in the client's token.
    """

    target: Target
    profile: RequestProfile
    secrets: SentSecrets = NO_SECRETS
    files: tuple[SecretReference, ...] = ()
    client: TokenClient | None = None
    is_steady: bool = True


@dataclass(slots=True)
class KnownFiles:
    """What has been read in one go for many targets: no file is read once for each of them."""

    secrets: set[SecretReference] = field(default_factory=set)
    certificates: dict[Tls, TlsFiles] = field(default_factory=dict)


class AccessReader:
    """Reads what targets refer to; the clients that it has made stay when targets are read anew."""

    def __init__(self, secrets: SecretValues, certificates: CertificateFiles | None = None) -> None:
        self._secrets = secrets
        self._certificates = certificates or CertificateFiles()
        self._clients: dict[tuple[OAuth2Auth, RequestProfile], TokenClient] = {}

    def read(self, target: Target, known: KnownFiles | None = None) -> TargetAccess:
        """How the target is asked, else ConfigurationError; `known` is what was read for others just now."""
        known = known or KnownFiles()
        sent = {
            reference: place
            for place, reference in target.references()
            if place.startswith(("headers.", "query.", "auth."))
        }
        for reference, place in sent.items():
            if reference not in known.secrets:
                self._secrets.use(reference, f"{target.name}: {place}")
                known.secrets.add(reference)
        profile = self._profile(target, known)
        secrets = sent_secrets(target, self._secrets)
        files = tuple(reference for reference in sent if reference.kind == "file")
        client = self._client(target.auth, profile) if isinstance(target.auth, OAuth2Auth) else None
        if not files and client is None:
            return TargetAccess(target, replace(profile, headers=secrets.headers, secret_query=secrets.query))
        return TargetAccess(target, profile, secrets, files, client, is_steady=False)

    def _profile(self, target: Target, known: KnownFiles) -> RequestProfile:
        profile = RequestProfile(
            target.timeout_seconds,
            (),
            direct=is_loopback(target.url),
            max_body_bytes=target.max_body_bytes,
            wanted_headers=target.answer.wanted_headers,
            method=target.method,
            has_body=target.template is not None and target.template.body is not None,
        )
        if target.tls is not None:
            if target.tls not in known.certificates:
                known.certificates[target.tls] = self._certificates.read(target.tls, target.name)
            profile = replace(profile, tls=known.certificates[target.tls])
        return replace(profile, proxy=self._proxy(target.proxy, target.name)) if target.proxy else profile

    def _proxy(self, stated: str | SecretReference, name: str) -> Proxy:
        place = f"{name}: proxy"
        url = stated if isinstance(stated, str) else self._secrets.use(stated, place)
        KNOWN.add_proxies({"its_proxy": url})
        try:
            return read_proxy(url)
        except InvalidInput as error:
            raise ConfigurationError(place, f"{stated} {error.problem}") from None

    def _client(self, auth: OAuth2Auth, asks: RequestProfile) -> TokenClient:
        """Its token endpoint is reached as the API is: through the same proxy, with the same certificates."""
        profile = replace(
            asks,
            timeout_seconds=TOKEN_TIMEOUT_SECONDS,
            direct=is_loopback(auth.token_url),
            max_body_bytes=MAX_TOKEN_ANSWER_BYTES,
            wanted_headers=frozenset(),
            method="POST",
            has_body=True,
        )
        return self._clients.setdefault((auth, profile), TokenClient(auth, profile, KeptToken()))


def sent_secrets(target: Target, secrets: SecretValues) -> SentSecrets:
    """The headers as `Name: value` lines and the secret parameters, with what was read last."""
    headers = {
        name: value if isinstance(value, str) else secrets.value(value)
        for name, value in target.sent_headers.items()
    }
    if target.auth and not isinstance(target.auth, OAuth2Auth):
        headers["Authorization"] = authorization(target.auth, secrets.value)
    found = target.template.secret_query if target.template else ()
    query = encode_query((name, secrets.value(reference)) for name, reference in found)
    return SentSecrets(tuple(f"{name}: {value}" for name, value in headers.items()), query)

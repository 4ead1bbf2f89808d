"""The settings of security: authentication, rules, TLS, the audit and the limits of principals.

`docs/security.md` says how these work together.
"""

import re
import ssl
from typing import Literal

from pydantic import field_validator, model_validator

from tms.core.runtime.tls import client_context
from tms.core.text.hosts import Network, is_loopback, networks_of
from tms.settings.values import LimitSettings, seldom, setting

_TOKEN = re.compile(r"[a-z0-9]{12}:[0-9a-f]{64}:[^,:\s][^,]{0,254}", re.ASCII)
_JWKS = re.compile(r"https://\S+|(?!\w+://)\S.*")


class SecuritySettings(LimitSettings):
    """The settings of security. Values are checked on construction."""

    auth: Literal["off", "optional", "required"] = setting(
        "off",
        "Whether callers need credentials. With optional, callers without them are `anonymous`, "
        "which rules may name.",
    )
    superusers: str = setting(
        "",
        "Principals who may do everything. They are separated by commas. Only this setting makes "
        "superusers; rules cannot.",
    )
    auth_tokens: str = seldom(
        "",
        "Tokens that are valid without a metadata store. Each is ID:SHA256:PRINCIPAL, as `tms auth "
        "init` writes it; they are separated by commas.",
    )
    auth_passwords: str = seldom(
        "",
        "A file of names and passwords for Basic. Each line is NAME:HASH, as `tms auth "
        "password` makes it, perhaps with :GROUP,GROUP at the end.",
    )
    auth_jwks: str = seldom(
        "",
        "The public keys for JSON Web Tokens: a file, or an https:// URL. With it, "
        "auth_issuer and auth_audience are needed.",
    )
    auth_issuer: str = seldom("", "The issuer that a JSON Web Token must name.")
    auth_audience: str = seldom("", "The audience that a JSON Web Token must name.")
    auth_principal_claim: str = seldom(
        "sub", "The claim of a JSON Web Token that names the principal."
    )
    auth_groups_claim: str = seldom("groups", "The claim that lists the principal's groups.")
    auth_open_docs: bool = seldom(False, "Show /docs and /openapi.json to everybody.")
    auth_stale_s_max: float = seldom(
        60.0,
        "How long rules and tokens are valid after the last response of the metadata store. Then "
        "everybody except superusers gets 503.",
        ge=3,
    )
    insecure_no_auth: bool = seldom(
        False, "Serve other machines without authentication, so that everybody may do everything."
    )
    allow_plaintext: bool = seldom(
        False,
        "Allow unencrypted credentials to and from other machines. Anybody who listens in between "
        "can use them.",
    )
    trusted_proxies: str = seldom(
        "",
        "The addresses or networks of proxies, separated by commas. If they pass a request on, "
        "X-Forwarded-For or Forwarded says whose it is.",
    )
    tls_cert: str = setting(
        "", "The file of this server's certificate. With it, the server uses TLS."
    )
    tls_key: str = setting("", "The file of the certificate's key.")
    tls_client_ca: str = seldom(
        "",
        "A file of trusted certificates for clients. A client's certificate names its "
        "principal by its URI, else by its common name.",
    )
    tls_ca: str = seldom(
        "",
        "A file of trusted certificates for other servers. Without it, those of the "
        "machine are used.",
    )
    audit_file: str = seldom(
        "",
        "The file of the audit, which records refusals, changes and first uses. By default the "
        "audit goes to the log.",
    )
    audit_topic: bool = seldom(False, "Also publish the audit to the topic system:_audit.")

    @field_validator("auth_tokens")
    @classmethod
    def _check_tokens(cls, tokens: str) -> str:
        if any(not _TOKEN.fullmatch(token.strip()) for token in tokens.split(",") if token.strip()):
            raise ValueError("give ID:SHA256:PRINCIPAL, as `tms auth init` writes it")
        return tokens

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: str) -> str:
        networks_of(proxies)
        return proxies

    @property
    def proxies(self) -> list[Network]:
        """The networks of the trusted proxies."""
        return networks_of(self.trusted_proxies)

    @field_validator("auth_jwks")
    @classmethod
    def _check_jwks(cls, jwks: str) -> str:
        if jwks and not _JWKS.fullmatch(jwks):
            raise ValueError("give a file or an https:// URL")
        return jwks

    @model_validator(mode="after")
    def _check_belonging(self) -> "SecuritySettings":
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("tls_cert and tls_key need each other")
        if self.tls_client_ca and not self.tls_cert:
            raise ValueError("tls_client_ca needs tls_cert: only TLS carries client certificates")
        if self.auth_jwks and not (self.auth_issuer and self.auth_audience):
            raise ValueError("auth_jwks needs auth_issuer and auth_audience")
        return self

    def check_safe(self, *hosts: str) -> None:
        """Raise `ValueError` if listening at one of these hosts would let strangers in."""
        reached = [host for host in hosts if not is_loopback(host)]
        if not reached or self.insecure_no_auth:
            return
        if self.auth == "off":
            raise ValueError(
                f"other machines reach {reached[0]}, and auth is off: everybody could do "
                "everything. Set auth (`tms auth init` makes all that is needed), or give "
                "--insecure-no-auth"
            )
        if not self.tls_cert and not self.allow_plaintext:
            raise ValueError(
                f"other machines reach {reached[0]}, and there is no tls_cert: credentials would "
                "travel unencrypted. Give one, or give --allow-plaintext if a proxy in front of "
                "the server encrypts"
            )

    def tls_to_others(self) -> ssl.SSLContext:
        """Return the TLS context for calls to other servers, with this server's certificate.

        Raises `ValueError`, which names the setting.
        """
        names = ("tls_ca", "tls_cert", "tls_key")
        return client_context(self.tls_ca, self.tls_cert, self.tls_key, names=names)

    @property
    def superuser_names(self) -> frozenset[str]:
        """The principals who may do everything."""
        return frozenset(
            superuser.strip() for superuser in self.superusers.split(",") if superuser.strip()
        )

    @property
    def scheme(self) -> str:
        """The scheme of this server's URLs."""
        return "https" if self.tls_cert else "http"

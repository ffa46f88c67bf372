"""JSON Web Tokens as passwords: the signature says who the client is, the claims for how long.

Rules: 1. The algorithms are those of the configuration, never the token's own choice alone.  2. A token
without ``exp`` is refused; a connection does not outlive its token.  3. A password that does not look like a
token is another source's business.
"""

from __future__ import annotations

from pathlib import Path

import jwt

from gossamer.config import JwtConfig
from gossamer.files import FileError
from gossamer.mqtt.auth.sources import Answer, Login, Verdict
from gossamer.mqtt.codec.reasons import ReasonCode


class Tokens:
    """A source of :mod:`gossamer.mqtt.auth.sources`."""

    def __init__(self, config: JwtConfig) -> None:
        self._config = config
        self.load()

    def files(self) -> tuple[Path, ...]:
        return () if self._config.public_key_file is None else (self._config.public_key_file,)

    def load(self) -> None:
        config = self._config
        if config.secret is not None:
            self._key = config.secret.get_secret_value()
            return
        assert config.public_key_file is not None  # noqa: S101 - the schema sees to it
        try:
            text = config.public_key_file.read_text(encoding="utf-8")
            jwt.get_algorithm_by_name(config.algorithms[0]).prepare_key(text)
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise FileError(config.public_key_file, error, expected="a public key in PEM", of="JWT") from None
        self._key = text

    def ask(self, login: Login) -> Answer:
        password = login.password
        if password is None or password.count(b".") != 2:
            return None
        config = self._config
        try:
            claims = jwt.decode(
                password,
                self._key,
                algorithms=list(config.algorithms),
                issuer=config.issuer,
                audience=config.audience,
                leeway=config.leeway,
                options={"require": ["exp"]},
            )
        except (jwt.PyJWTError, ValueError):
            return Verdict(ReasonCode.NOT_AUTHORIZED, "jwt")
        name = claims.get(config.username_claim)
        if not isinstance(name, str) or not name or (login.username or name) != name:
            return Verdict(ReasonCode.NOT_AUTHORIZED, "jwt")
        tenant = None if config.tenant_claim is None else claims.get(config.tenant_claim)
        return Verdict(
            ReasonCode.SUCCESS,
            "jwt",
            name,
            float(claims["exp"]) + config.leeway,
            None if tenant is None else str(tenant),
        )

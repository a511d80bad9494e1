"""A small provider of single sign-on: OpenID Connect on a port of this machine, as strict as a real one.

What it answers can be bent (``bend``) to see that it is refused.
"""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "elevata-test", "only-for-tests"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class LocalProvider:
    """Knows one person, ``claims``; whoever comes to it is that person."""

    def __init__(self) -> None:
        self.key, self.kid = new_key(), "k1"
        self.claims: dict[str, Any] = {
            "sub": "248289761001",
            "preferred_username": "grace",
            "email": "grace@example.org",
            "email_verified": True,
            "groups": ["staff"],
        }
        self.userinfo_sub = ""
        # What may be done to the ID token's claims, and how it is signed, before it is given out.
        self.bend: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.asked: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> "LocalProvider":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.kid})

    # --- what it answers -------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def keys(self) -> dict[str, Any]:
        key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [key | {"kid": "k1", "use": "sig", "alg": "RS256"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Return the address to which the browser is redirected."""
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        self.asked.append(asked)
        code = f"code-{len(self.asked)}"
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, given: dict[str, str]) -> dict[str, Any] | None:
        """Tokens for a code, once; None unless client, redirect and PKCE verifier are right."""
        asked = self._codes.pop(given.get("code", ""), None)
        if asked is None or (given.get("client_id"), given.get("client_secret")) != (CLIENT, SECRET):
            return None
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenge != asked["code_challenge"] or given.get("redirect_uri") != asked["redirect_uri"]:
            return None
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": self.claims["sub"],
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        }
        return {"access_token": "opaque", "token_type": "Bearer", "id_token": self.sign(self.bend(claims))}

    def userinfo(self) -> dict[str, Any]:
        return self.claims | {"sub": self.userinfo_sub or self.claims["sub"]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(asked))
                    self.end_headers()
                    return
                if parts.path == "/userinfo" and self.headers.get("Authorization") != "Bearer opaque":
                    self._answer(None)
                    return
                answers = {
                    "/.well-known/openid-configuration": provider.described,
                    "/keys": provider.keys,
                    "/userinfo": provider.userinfo,
                }
                self._answer(answers[parts.path]() if parts.path in answers else None)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(provider.token({name: values[0] for name, values in parse_qs(body).items()}))

            def _answer(self, content: dict[str, Any] | None) -> None:
                body = json.dumps({"error": "invalid_request"} if content is None else content).encode()
                self.send_response(400 if content is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Nothing to say in a test's output."""

        return Handler

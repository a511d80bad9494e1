"""OpenID Connect provider for tests of single sign-on, which validates requests as a real one does.

Tests alter its answers with ``bend`` and ``sign`` to check that they are refused.
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
    """Local provider with one user, described by ``claims``, whom every request signs in."""

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
        # Functions that alter the claims of the ID token and sign it.
        self.bend: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.asked: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

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

    # --- answers ---------------------------------------------------------------------------

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

    def authorize(self, query: dict[str, str]) -> str:
        """Return the address to which the browser is redirected."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        self.asked.append(query)
        code = f"code-{len(self.asked)}"
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return the tokens for a code, once, or None for a wrong client, redirect URI or PKCE verifier."""
        query = self._codes.pop(form.get("code", ""), None)
        if query is None or (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET):
            return None
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenge != query["code_challenge"] or form.get("redirect_uri") != query["redirect_uri"]:
            return None
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": self.claims["sub"],
            "iat": now,
            "exp": now + 300,
            "nonce": query["nonce"],
        }
        return {"access_token": "opaque", "token_type": "Bearer", "id_token": self.sign(self.bend(claims))}

    def userinfo(self) -> dict[str, Any]:
        return self.claims | {"sub": self.userinfo_sub or self.claims["sub"]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(query))
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
                """Suppress the log output."""

        return Handler

"""One installation, asked by its address: no redirects are followed, and a failure says what to do."""

from __future__ import annotations

from http.client import HTTPException
from http.cookiejar import CookieJar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, OpenerDirector, Request, build_opener

from skillglass.record_rows import RecordError

SECONDS = 300  # without a byte: a comparison of many runs is computed before the first one
MAX_QUOTED = 300  # characters of a quoted answer


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: a session belongs to the address that was opened."""

    def redirect_request(self, *_: object) -> None:
        return None


class Connection:
    """Sends `token`, or logs in like a person if `user` is given. Both stay in memory, and only go to this address."""

    def __init__(self, address: str, user: str = "", password: str = "", *, token: str = "") -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise RecordError(
                f"{parts.hostname or address}: expected http://HOST or https://HOST, without a name in it"
            )
        self.root = f"{parts.scheme}://{parts.netloc}"
        self._cookies = CookieJar()
        self._opener: OpenerDirector = build_opener(_NoRedirects, HTTPCookieProcessor(self._cookies))
        self._headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        if user and not token:
            self._log_in(user, password)

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/x-www-form-urlencoded",
        expected: tuple[int, ...] = (200,),
        **headers: str,
    ) -> tuple[int, bytes]:
        """Return status and body of the answer; the body is empty beyond 200. RecordError: it is not as expected."""
        sent = {**self._headers, **headers, **({} if body is None else {"Content-Type": content_type})}
        request = Request(f"{self.root}{path}", data=body, headers=sent)
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                if error.code in expected:
                    return error.code, b""
                raise RecordError(f"{request.full_url}: {_explain(error)}") from None
        except (URLError, OSError, HTTPException) as error:
            raise RecordError(f"{request.full_url}: does not answer; {getattr(error, 'reason', error)}") from error

    def _log_in(self, user: str, password: str) -> None:
        """Log in by the people's form; a wrong password counts as one there."""
        self.ask("/login/")
        token = next((each.value for each in self._cookies if each.name == "csrftoken"), None) or ""
        form = urlencode({"username": user, "password": password, "csrfmiddlewaretoken": token}).encode()
        status, _ = self.ask("/login/", form, expected=(200, 302), Referer=f"{self.root}/login/")
        if status != 302:  # the form again
            raise RecordError(f"{self.root}/login/: {user} is not known by this password")


def _explain(error: HTTPError) -> str:
    """The server's message, shortened to quote."""
    if 300 <= error.code < 400:
        place = error.headers.get("Location", "")[:MAX_QUOTED]
        return f"leads to {place!r}, and nothing is sent there; open that address where it is yours"
    if error.code == 401:
        return "expected a token that works: skillglass.open(address, token=...)"
    message = error.read(MAX_QUOTED).decode("utf-8", "replace").strip()
    return f"answered {error.code}; {message!r}"

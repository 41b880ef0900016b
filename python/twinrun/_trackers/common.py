# SPDX-License-Identifier: Apache-2.0
"""What the exports share: files that get their names when they are whole, and HTTP."""

import http.client
import ipaddress
import json
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request

# Seconds in which a server has to answer.
PATIENCE_S = 60
# An answer that is longer is none.
ANSWER_MAX = 64 << 20


def path_of(value):
    """Text as Python has names of files: what is no UTF-8 came as {"hex": ...}."""
    if isinstance(value, dict):
        try:
            return os.fsdecode(bytes.fromhex(str(value.get("hex"))))
        except ValueError:
            return ""
    return str(value)


def printable(words):
    """The text with \\xNN in place of what no reader should meet."""

    def shown(c):
        if c.isprintable():
            return c
        return "\\x%02x" % (ord(c) & 0xFF if 0xDC80 <= ord(c) <= 0xDCFF else ord(c))

    return "".join(map(shown, words))


class Trouble(Exception):
    """Something was not written; the text says what was expected, what was found, what to try."""


def place(path, data, replace):
    """Writes a whole file. One that is there already stays unless told otherwise; with the same
    bytes it is done already.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise Trouble("%s is no file; give the name of a file" % path)
    try:
        try:
            with open(path, "rb") as f:
                if f.read() == data:
                    return
            if not replace:
                raise Trouble(
                    "%s is there already, with other contents; --force replaces it" % path
                )
        except FileNotFoundError:
            pass
        folder = os.path.dirname(os.path.abspath(path))
        fd, temporary = tempfile.mkstemp(dir=folder, prefix=".twinrun-")
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise Trouble("%s was not written: %s" % (path, error.strerror or error)) from None


def is_url(target):
    return target.startswith(("http://", "https://"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take what is sent, and the token, to somebody else."""

    def redirect_request(self, *_):
        return None


_opener = urllib.request.build_opener(_NoRedirect)
_direct = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))


def _opener_for(url):
    """To this machine by plain HTTP no proxy is asked: it would get the token in the clear."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http":
        return _opener
    try:
        here = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        here = parts.hostname == "localhost"
    return _direct if here else _opener


class Refused(Trouble):
    """The server answered, and said no; `status` and `body` are what it said."""

    def __init__(self, message, status, body):
        super().__init__(message)
        self.status, self.body = status, body


def checked_url(url):
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Trouble("expected a URL such as http://127.0.0.1:5000, found %s" % url)
    if parts.username or parts.password:
        raise Trouble(
            "expected no password in the URL: other people read the arguments of commands"
        )
    return url.rstrip("/")


def send(method, url, data=None, headers=None):
    """The body of the answer, as bytes. Raises Trouble, where the server refuses Refused."""
    where = url.split("?")[0]
    request = urllib.request.Request(url, data, headers or {}, method=method)
    try:
        with _opener_for(url).open(request, timeout=PATIENCE_S) as answer:
            body = answer.read(ANSWER_MAX + 1)
    except urllib.error.HTTPError as error:
        body = error.read(4096).decode("utf-8", "replace")
        message = "%s refused: HTTP %d, %s" % (where, error.code, _reason(body) or error.reason)
        raise Refused(message, error.code, body) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Trouble(
            "%s does not answer: %s. Nothing is lost: the runs are here, and exported again, what "
            "is missing is added" % (where, reason)
        ) from None
    if len(body) > ANSWER_MAX:
        raise Trouble("%s: expected an answer below 64 MiB, found more" % where)
    return body


def _reason(body):
    try:
        found = json.loads(body)
        return " ".join(str(found[k]) for k in ("error_code", "message") if found.get(k))
    except (ValueError, AttributeError, TypeError):
        return " ".join(body.split())[:200]

"""Errors of the command line and of a node's API, each with the next step, and the exit codes they become.

Rules: 1. The node's own words are kept.  2. An answer is not trusted: what is no gossamer node, speaks TLS
where none was expected, or is of another version, is named as such.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from difflib import get_close_matches
from enum import IntEnum
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer import __version__
from gossamer.errors import (
    ConfigError,
    GossamerError,
    PeerError,
    TransportError,
    UnavailableError,
    UsageError,
    WrongValueError,
)

if TYPE_CHECKING:
    import httpx


class ExitCode(IntEnum):
    """Exit codes, which scripts may rely on.

    ====  =======================================================================
    code  meaning
    ====  =======================================================================
    0     done
    1     something that should not happen; please report it
    2     the command line is wrong
    3     the configuration is wrong; every mistake is listed
    4     no node answers, or it broke off
    5     the node refused: the request cannot work as it stands
    6     not possible now, or only in part: a port is taken, a node is not ready
    7     a node ended by itself
    8     a promise is broken: found by an audit (``gossamer audit run --fail-on``) or by a drill
    130   interrupted by Ctrl-C, except where that is the way to end it (``--watch``, ``top``, ``trace``)
    ====  =======================================================================
    """

    DONE = 0
    BUG = 1
    USAGE = 2
    CONFIG = 3
    UNREACHABLE = 4
    REFUSED = 5
    UNAVAILABLE = 6
    NODE_ENDED = 7
    PROMISE_BROKEN = 8
    INTERRUPTED = 130


def exit_code_of(error: BaseException) -> ExitCode:
    """The branch of the error tree decides."""
    match error:
        case ConfigError():
            return ExitCode.CONFIG
        case WrongValueError():
            return ExitCode.USAGE
        case UsageError():
            return ExitCode.REFUSED
        case PeerError() | TransportError():
            return ExitCode.UNREACHABLE
        case UnavailableError():
            return ExitCode.UNAVAILABLE
        case _:
            return ExitCode.BUG


class OptionError(WrongValueError):
    """A value on the command line that cannot be right."""

    def __init__(self, option: str, *, got: str, expected: str) -> None:
        self.option = option
        super().__init__(f"{option}: got {got!r}, expected {expected}")


class FileError(UsageError):
    """A file that the command line or the environment names cannot be read or written."""

    def __init__(self, path: Path | str, problem: Exception | str, *, advice: str) -> None:
        self.path = path
        reason = getattr(problem, "strerror", None) or str(problem)
        super().__init__(f"{path}: {reason}; {advice}")


class NodeUnreachableError(TransportError):
    """No node answers at an API address."""

    def __init__(self, *, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(
            f"no node answers at {url}: {reason}; start one with `gossamer up`, or name another with --api"
        )


class RefusedError(UsageError):
    """The node refused the request as wrong."""


class BadValueError(RefusedError, WrongValueError):
    """The node refused a value."""


class NotNowError(UnavailableError):
    """The node cannot do this now."""


class BadAnswerError(TransportError):
    """The answer is not that of a healthy gossamer node."""


class OtherVersionError(TransportError):
    """The node is of a version that this command does not know."""

    def __init__(self, *, problem: str) -> None:
        super().__init__(
            f"{problem}; it may be of another version than this command ({__version__}): "
            "`gossamer nodes --json` tells, and --json prints whatever it answers"
        )


class BrokeOffError(TransportError):
    """A node stopped in the middle of an answer."""

    def __init__(self, *, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"the node at {url} broke off: {reason}; see its log, and `gossamer nodes`")


class UnknownNameError(UsageError):
    """The name is unknown."""

    def __init__(self, *, kind: str, name: str, known: Sequence[str], see: str) -> None:
        self.name = name
        self.known = tuple(known)
        close = did_you_mean(name, known)
        others = (
            f", expected one of {', '.join(known)}"
            if 0 < len(known) <= 16
            else f", expected one that is there; see `{see}`"
        )
        super().__init__(f"{kind}: got {name!r}{others}{close}")


class Answer(dict[str, object]):
    """Object of an answer; a missing key indicates another version, not a mistake here."""

    __slots__ = ()

    def __missing__(self, key: str) -> object:
        raise OtherVersionError(problem=f"a node's answer has no {key!r}")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """``; did you mean …?`` with the names most like ``name``, or nothing."""
    folded = {one.lower(): one for one in known}
    close = [folded[one] for one in get_close_matches(name.lower(), list(folded), n=3, cutoff=0.6)]
    # A part of a name is not like it, but may well be meant.
    close += [one for one in known if name and name.lower() in one.lower() and one not in close]
    return f"; did you mean {' or '.join(close[:3])}?" if close else ""


def reason_of(error: Exception) -> str:
    """Why there was no answer, in few words."""
    # Here, so that the rest of the command starts without loading it.
    import httpx

    text = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout | httpx.ReadTimeout):
        return "no answer in time"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = getattr(cause, "verify_message", "") or text
            return (
                f"its certificate is not trusted ({problem}): GOSSAMER_CACERT names the file of who signed it"
            )
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS there: try http:// rather than https://"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return f"it does not speak HTTP there ({text}); where it speaks TLS, try https://"
    if isinstance(error, httpx.ConnectError):
        return "nothing listens there" if "refused" in text.lower() else text
    return text


def error_of(answer: httpx.Response, body: object, url: str) -> GossamerError:
    """Return the error for an answer that is no success."""
    if not isinstance(body, dict) or "detail" not in body or "title" not in body:
        return bad_answer(answer, url)
    detail = str(body["detail"])
    request = answer.request
    if answer.status_code == HTTPStatus.NOT_FOUND and detail == f"{request.method} {request.url.path}":
        return OtherVersionError(problem=f"the node at {url} does not know {detail}")
    if answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:
        if detail.endswith("a field that this node does not know"):
            return OtherVersionError(problem=f"the node at {url} does not take this: {detail}")
        return BadValueError(detail)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        return RefusedError(f"{detail}; this command sends what GOSSAMER_TOKEN or GOSSAMER_TOKEN_FILE holds")
    if answer.status_code == HTTPStatus.FORBIDDEN and "role" in detail:
        return RefusedError(f"{detail}; give a token of that role in GOSSAMER_TOKEN")
    if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        return NotNowError(detail)
    if answer.is_client_error:
        return RefusedError(detail)
    if answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
        return BadAnswerError(f"{url}: {detail}")
    return NotNowError(detail)


def bad_answer(answer: httpx.Response, url: str) -> BadAnswerError:
    """For what no node would answer."""
    hint = "; where TLS is in front of it, try https://" if _wants_tls(answer) else ""
    return BadAnswerError(
        f"{url}{answer.request.url.path}: got HTTP {answer.status_code}, expected JSON of a "
        f"gossamer node; check --api, and the node's log{hint}"
    )


def _wants_tls(answer: httpx.Response) -> bool:
    return answer.request.url.scheme == "http" and (
        answer.status_code in (301, 302, 307, 308, 400)
        and ("https" in answer.headers.get("location", "") or b"https" in answer.content[:2000].lower())
    )

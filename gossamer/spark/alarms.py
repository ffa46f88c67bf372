"""Tell a node of the cluster what an audit found, as alarms over its HTTP API.

Rule: a cluster that cannot be told is no reason to stop judging it: what could not be said is said to the
caller, and again after the next batch.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

__all__ = ["post_alarm"]

_PATIENCE = 10.0


def post_alarm(api: str, name: str, *, active: bool, text: str = "") -> str | None:
    """Raise or clear an alarm at the node whose API is at ``api``; None, or why it did not work.

    The token, where the cluster wants one, is that of the ``gossamer`` command: ``GOSSAMER_TOKEN``, or a file
    that ``GOSSAMER_TOKEN_FILE`` names.
    """
    if not api.startswith(("http://", "https://")):
        return f"{api}: expected a URL such as http://127.0.0.1:8091"
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        f"{api.rstrip('/')}/api/v1/alarms",
        data=json.dumps({"name": name, "active": active, "text": text[:2000]}).encode(),
        headers={"content-type": "application/json", **_token()},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"{api} refused the alarm {name}: {error.code} {error.read(300).decode(errors='replace')}"
    except (OSError, ValueError) as error:
        return f"{api} could not be told of the alarm {name}: {error}"


def _token() -> dict[str, str]:
    token = os.environ.get("GOSSAMER_TOKEN", "").strip()
    path = os.environ.get("GOSSAMER_TOKEN_FILE", "")
    if not token and path:
        token = Path(path).read_text(encoding="ascii").strip()
    return {"authorization": f"Bearer {token}"} if token else {}

"""Access control: who may publish and subscribe to what, by a file.

::

    # first rule that fits decides; where none fits, no
    allow all        user:admin     #
    deny  subscribe  *              secret/#
    allow publish    *              devices/%c/#
    allow subscribe  user:ann       home/%u/+
    allow subscribe  anonymous      public/#
    allow all        *              %t/#          tenant:acme

Rules: 1. ``%c`` is the client identifier, ``%u`` the user name, ``%t`` the tenant; a rule with
``%u`` fits nobody without one, and a value with ``/``, ``+`` or ``#`` fits no rule, so that nobody names
himself into another's branch.
2. A subscription is allowed where the rule's filter covers all of it, and denied where a rule's filter meets
any of it: ``#`` is no way around a denied branch.  3. Of ``$share/group/filter`` and
``$exclusive/filter`` the filter counts.  4. A rule is of the clients of its tenant, without one of all;
topics and filters are those that clients say, whichever tenant they are of.

A :class:`Gate` is one client's view. On the publish path it stands where the router's cache is looked up: an
allowed topic is one more dictionary look-up, a denied one gets :data:`UNROUTED`, a route that sends it to the
handlers, and they refuse it. Without an ACL file there is no gate and nothing to look up.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from gossamer.errors import UsageError
from gossamer.files import FileError
from gossamer.mqtt.publish.delayed import UNROUTED, delayed_topic
from gossamer.routes import Route, body_of, matches, parse_filter
from gossamer.tenants import DEFAULT, bare, bare_topic, checked

Action = Literal["publish", "subscribe"]

CACHE_LIMIT = 1024


_EXPECTED = (
    "allow|deny publish|subscribe|all WHO FILTER, WHO being *, anonymous, user:NAME or client:ID; behind it "
    "may be tenant:NAME"
)
_OF_TENANT = "tenant:"


class Rule(NamedTuple):
    """One line."""

    allow: bool
    actions: tuple[Action, ...]
    who: str
    filter: str
    tenant: str | None = None
    """Of whose clients it is, blank: the default tenant's; None: of all."""


def parse_acl(text: str, file: Path) -> tuple[Rule, ...]:
    """The rules of a file.

    Raises:
        FileError: a line is no rule.
    """
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        wrong = FileError(file, f"cannot read {line.strip()!r}", expected=_EXPECTED, line=number)
        try:
            words = shlex.split(line) if not line.lstrip().startswith("#") else []
            if not words:
                continue
            verb, action, who, topic_filter, *of = words
            parse_filter(topic_filter)
            tenant = _tenant_of(of)
        except ValueError:
            raise wrong from None
        except UsageError as error:
            raise FileError(file, error, expected=_EXPECTED, line=number) from None
        kind, colon, name = who.partition(":")
        fits = who in ("*", "anonymous") or (kind in ("user", "client") and colon and name)
        if verb not in ("allow", "deny") or action not in ("publish", "subscribe", "all") or not fits:
            raise wrong
        actions: tuple[Action, ...] = ("publish", "subscribe") if action == "all" else (action,)  # type: ignore[assignment]
        rules.append(Rule(verb == "allow", actions, who, topic_filter, tenant))
    return tuple(rules)


def _tenant_of(words: list[str]) -> str | None:
    """Return the tenant in what stands behind the filter; None: nothing does. Raises ValueError."""
    if not words:
        return None
    [word] = words
    if not word.startswith(_OF_TENANT) or word == _OF_TENANT:
        raise ValueError(word)
    return checked(word.removeprefix(_OF_TENANT), "tenant")


class Acl:
    """The rules of a file, for everybody; ``file`` may change, see :mod:`gossamer.mqtt.auth.files`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.rules: tuple[Rule, ...] = ()
        """Those of the file; another object each time that it is read."""
        self.load()

    def files(self) -> tuple[Path, ...]:
        return (self._file,)

    def load(self) -> None:
        try:
            self.rules = parse_acl(self._file.read_text(encoding="utf-8"), self._file)
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(self._file, error, expected=_EXPECTED) from None

    def rules_for(self, client_id: str, username: str | None, tenant: str = "") -> tuple[Rule, ...]:
        """The rules that fit a client, its names put in."""
        found = []
        for rule in self.rules:
            if rule.tenant is not None and rule.tenant != tenant:
                continue
            who = ("*", f"client:{client_id}", "anonymous" if username is None else f"user:{username}")
            if rule.who not in who:
                continue
            text = _fill(rule.filter, client_id, username, tenant or DEFAULT)
            if text is not None:
                found.append(rule._replace(filter=text))
        return tuple(found)


def _fill(text: str, client_id: str, username: str | None, tenant: str) -> str | None:
    values = {"%c": client_id, "%u": username, "%t": tenant}
    used = [value for mark, value in values.items() if mark in text]
    if any(not value or set(value) & set("/+#") for value in used):
        return None
    # In one pass: a name that contains a mark is not looked into again.
    parts = []
    at = 0
    while at < len(text):
        value = values.get(text[at : at + 2])
        parts.append(text[at] if value is None else value)
        at += 1 if value is None else 2
    return "".join(parts)


class Gate:
    """Permissions of one client; see the module. ``look_up`` is the router's cache, ``allowed`` counts
    decisions that allow something."""

    __slots__ = (
        *("_acl", "_allowed", "_client_id", "_look_up", "_rules", "_tenant", "_topics", "_username"),
        "basis",
    )

    def __init__(
        self,
        acl: Acl,
        client_id: str,
        username: str | None,
        look_up: Callable[[bytes], Route | None],
        *,
        tenant: str = "",
        allowed: Callable[[str], None] = lambda _action: None,
    ) -> None:
        self._allowed = allowed
        self._tenant = tenant
        self._acl = acl
        self._client_id = client_id
        self._username = username
        self._look_up = look_up
        self._topics: dict[bytes, bool] = {}
        self.renew()

    @property
    def is_stale(self) -> bool:
        """The rules have changed since they were put in."""
        return self.basis is not self._acl.rules

    def renew(self) -> None:
        """The rules have changed."""
        self.basis: object = self._acl.rules
        self._rules = self._acl.rules_for(self._client_id, self._username, self._tenant)
        self._topics.clear()

    def get(self, topic: bytes) -> Route | None:
        """The topic's route if it is in the cache, or :data:`UNROUTED`."""
        allowed = self._topics.get(topic)
        if allowed is None:
            allowed = self.may_publish(topic)
        return self._look_up(topic) if allowed else UNROUTED

    def may_publish(self, topic: bytes) -> bool:
        """Return whether the client may publish to ``topic``; remembered."""
        known = self._topics.get(topic)
        if known is not None:
            return known
        try:
            name = bare_topic(topic).decode()
        except UnicodeDecodeError:
            # No topic at all, which whoever resolves it will say.
            return True
        if name.startswith("$delayed/"):
            # The topic that it is for; what names none goes nowhere.
            _, name = delayed_topic(name) or (0, name)
        found = False
        for rule in self._rules:
            if "publish" in rule.actions and matches(rule.filter, name):
                found = rule.allow
                break
        if found:
            self._allowed("publish")
        if len(self._topics) >= CACHE_LIMIT:
            self._topics.clear()
        self._topics[topic] = found
        return found

    def may_subscribe(self, topic_filter: str) -> bool:
        """Return whether the client may subscribe to ``topic_filter``."""
        allowed = self.may_receive(topic_filter)
        if allowed:
            self._allowed("subscribe")
        return allowed

    def may_receive(self, topic_filter: str) -> bool:
        """The same, which counts as no decision: of a topic from which a message waits."""
        wanted = body_of(bare(topic_filter)).split("/")
        for rule in self._rules:
            if "subscribe" not in rule.actions:
                continue
            mine = rule.filter.split("/")
            if rule.allow and _covers(mine, wanted):
                return True
            if not rule.allow and _meets(mine, wanted):
                return False
        return False


def _covers(wide: list[str], narrow: list[str]) -> bool:
    """Return whether every topic of ``narrow`` is one of ``wide``."""
    if wide[0] in ("+", "#") and narrow[0].startswith("$"):
        return False
    for at, word in enumerate(wide):
        if word == "#":
            return True
        if at >= len(narrow) or narrow[at] == "#":
            return False
        if word not in ("+", narrow[at]):
            return False
    # "a/#" has "a" itself, but "a" has not "a/#".
    return len(narrow) == len(wide)


def _meets(one: list[str], other: list[str]) -> bool:
    """Return whether some topic is of both."""
    for first, second in ((one[0], other[0]), (other[0], one[0])):
        if first in ("+", "#") and second.startswith("$"):
            return False
    for at in range(max(len(one), len(other))):
        left = one[at] if at < len(one) else None
        right = other[at] if at < len(other) else None
        if left == "#" or right == "#":
            return True
        if left is None or right is None:
            return False
        if left != right and "+" not in (left, right):
            return False
    return True

"""The page of ``gossamer.supervisor``: every public name, by purpose, from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

import gossamer.supervisor as front
from script.references.markdown import prose
from script.references.python import function_text, members_of, signature_text

_HEAD = """# gossamer.supervisor

Every public name of the package, by purpose; the most used ones can be imported from `gossamer` as well. How
to use them: [Supervised actors in Python](../guide/actors.md). Names and rules are those of OTP.
"""

GROUPS: dict[str, tuple[str, str]] = {
    "Servers": (
        "A process that serves requests one after another and keeps state between them.",
        "GenServer Reply NoReply Stop Continue reply Caller Timeout Behaviour Named",
    ),
    "State machines": (
        "A server whose behaviour depends on a state, as OTP's `gen_statem`.",
        "StateMachine Next Keep CallEvent Info Internal Enter EventTimeout StateTimeout NamedTimeout",
    ),
    "Supervisors": (
        "Processes that start, restart and stop others.",
        """Supervisor DynamicSupervisor ChildSpec Backoff ChildInfo ChildCounts Application Applications
        OsProcess""",
    ),
    "Processes and messages": (
        "For code inside a process; outside of processes, the methods of `Runtime` do the same.",
        """spawn spawn_link self_pid send send_wait cast call receive send_after cancel_timer TimerRef Pid Ref
        Destination Cast""",
    ),
    "Links, monitors and exits": (
        "How processes learn of each other's end.",
        "link unlink monitor demonitor exit trap_exit Exit Down Reason Crash ExitProcess is_clean describe",
    ),
    "Names": ("How processes are found.", "register whereis Registry"),
    "Runtime": (
        "The place where processes live, and what runs there without a task of its own.",
        "Runtime RemoteRouter Port guarded LoopWatch log_process tune_collector PAUSES",
    ),
    "Looking inside": (
        "As OTP's `sys`: state, traces and counts of a process that runs.",
        """get_state replace_state suspend resume statistics Statistics trace follow TraceLine Sent
        ProcessNode Folded locate rendered is_secret SafeText""",
    ),
    "Errors": (
        """Mistakes of the caller descend from `UsageError`, what is not possible now from `UnavailableError`.
`Ignore`, `StopInit` and `ExitProcess` are no errors: code raises them to end a process.""",
        """AlreadyPresent AlreadyStarted BadChildSpec BadDestination BadReturn CallFailed CallTimeout
        CallingSelf ChildNotFound ChildRestarting ChildRunning Ignore MailboxFull MaxChildren NameTaken
        NoSuchCallback NoSuchProcess NotAsync NotInProcess StartFailed StopInit TooManyTraces""",
    ),
}
"""Of each part of the page what it is about, and its names."""


def supervisor_page() -> str:
    """Build the page, group after group."""
    parts = [_HEAD]
    for title, (about, names) in GROUPS.items():
        parts.append(f"## {title}\n\n{about}\n")
        parts += [_described(name) for name in names.split()]
    return "\n".join(parts)


def described(name: str) -> str:
    """Return the docstring of a public name, that below its assignment where it is no class or function."""
    thing = getattr(front, name)
    if (inspect.isclass(thing) and thing.__module__.startswith("gossamer.")) or inspect.isfunction(thing):
        return inspect.getdoc(thing) or ""
    return _below_assignment(name)


def _described(name: str) -> str:
    thing = getattr(front, name)
    if inspect.isfunction(thing):
        return function_text(name, thing, "###")
    if not (inspect.isclass(thing) and thing.__module__.startswith("gossamer.")):
        return f"### {name}\n\n{prose(_below_assignment(name))}\n"
    parts = [f"### {name}\n", f"{prose(thing.__doc__)}\n"]
    # A kind of text, of exception or of process is not made by the arguments of its base.
    inherited = thing.__init__ in (str.__init__, Exception.__init__, object.__init__)
    if issubclass(thing, Struct) or not inherited:
        parts.insert(1, signature_text("class", name, thing))
    bases = [base for base in thing.__mro__[1:] if base.__name__ in front.__all__]
    if bases:
        parts.append(f"It is a [{bases[0].__name__}](#{bases[0].__name__.lower()}) with:\n")
    methods = [function_text(f"{name}.{member}", value, "####") for member, value in _own(thing)]
    if bases and not methods:
        parts.pop()
    return "\n".join([*parts, *methods])


def _own(thing: type) -> Iterator[tuple[str, Any]]:
    """Documented methods that no other class of the page has; a row of the process table keeps to itself."""
    elsewhere = [
        base for base in thing.__mro__[1:] if base.__name__ in (*front.__all__, "Entry", "UsageError")
    ]
    for name, value in members_of(thing):
        holder = next(base for base in thing.__mro__ if name in vars(base))
        if holder not in elsewhere:
            yield name, value


def _below_assignment(name: str) -> str:
    """Return the string literal below ``name = …`` in the module that has it."""
    for module in [module for key, module in sys.modules.items() if key.startswith("gossamer.supervisor.")]:
        if name not in vars(module):
            continue
        body = ast.parse(inspect.getsource(module)).body
        for statement, after in itertools.pairwise(body):
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return inspect.cleandoc(str(after.value.value))
    return ""

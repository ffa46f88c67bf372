"""``gossamer completion``: Typer's completion scripts, printed or installed.

For bash the script is our own, since Typer's reads words as bash breaks them, and names of nodes hold ``@``:
it passes the line as it stands, by the protocol that Typer has for fish, and offers what follows the last
break. In zsh Typer's script, loaded by ``compinit``, would only begin to complete with the second TAB.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from gossamer.cli import names
from gossamer.errors import UsageError, WrongValueError

__all__ = ["SHELLS", "completion"]

_TYPER = "typer.completion"
SHELLS = ("bash", "zsh", "fish")

_BASH = r"""# Completion of gossamer for bash 4.4 and later; made by `gossamer completion bash`.
_gossamer_completion() {
    local line=${COMP_LINE:0:COMP_POINT} value
    local typed=${line##*[[:space:]]}
    # --option=value is asked as two words; bash replaces only what follows its last word break.
    if [[ $typed == --*=* ]]; then
        line="${line%"$typed"}${typed%%=*} ${typed#--*=}"
        typed=${typed#--*=}
    fi
    local kept=${typed%"${typed##*[@:=]}"}
    # "@" belongs to what bash replaces, the other breaks do not.
    [[ $kept == *@ ]] && kept=${kept%@}
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        [[ $value ]] && COMPREPLY+=("$(printf %q "${value#"$kept"}")")
    done < <(_GOSSAMER_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
        _TYPER_COMPLETE_ARGS="$line" "$1" 2>/dev/null)
}
complete -o default -F _gossamer_completion gossamer
"""
_ZSH_AUTOLOADED = '\n[[ $zsh_eval_context[-1] == loadautofunc ]] && _gossamer_completion "$@"\n'


class InstallError(UsageError):
    """A file of the user's shell cannot be written."""

    def __init__(self, *, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}; put the output of `gossamer completion SHELL` there yourself")


class UnknownShellError(WrongValueError):
    """A shell without a completion script."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"SHELL: got {got!r}, expected one of {', '.join(SHELLS)}")


def completion(
    shell: Annotated[
        str | None,
        typer.Argument(
            metavar="SHELL", help="bash, zsh or fish (default: yours).", autocompletion=names.known(*SHELLS)
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Install it for this user instead of printing it.")
    ] = False,
) -> None:
    """Print or install the completion script of a shell."""
    name = shell or _shell_of_user()
    if name not in SHELLS:
        raise UnknownShellError(got=name)
    if not install:
        sys.stdout.write(_script(name))
        return
    try:
        _, path = import_module(_TYPER).install(shell=name, prog_name="gossamer")
        path.write_text(_script(name), encoding="utf-8")
    except OSError as error:
        raise InstallError(path=str(error.filename), problem=error.strerror or str(error)) from error
    typer.echo(path)
    typer.echo(f"installed for {name}; open a new shell and press TAB after gossamer", err=True)


def _script(shell: str) -> str:
    if shell == "bash":
        return _BASH
    make: Callable[..., str] = import_module(_TYPER).get_completion_script
    script = make(prog_name="gossamer", complete_var="_GOSSAMER_COMPLETE", shell=shell)
    return script + (_ZSH_AUTOLOADED if shell == "zsh" else "\n")


def _shell_of_user() -> str:
    detection = import_module("shellingham")
    try:
        return str(detection.detect_shell()[0])
    except detection.ShellDetectionFailure:
        return ""

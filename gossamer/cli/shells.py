"""What makes bash, zsh and fish ask ``gossamer`` at TAB, and where each of them looks for it.

Rules: 1. A script asks and offers; what there is to offer is decided in ``complete``.  2. Nothing but names
of files is ever offered where names of files are not wanted.  3. An installation changes files of the user's
own alone, says which, and can be repeated.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from gossamer.errors import WrongValueError

__all__ = ["SCRIPTS", "UnknownShellError", "install", "shell_of_user"]

_BASH = r"""# Completion of gossamer for bash 4.4 and later; made by `gossamer completion bash`.
_gossamer() {
    local kind line
    COMPREPLY=()
    {
        IFS= read -r kind
        while IFS= read -r line; do COMPREPLY+=("$line"); done
    } < <(_GOSSAMER_COMPLETE=bash _GOSSAMER_BREAKS="$COMP_WORDBREAKS" \
        "$1" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case $kind in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
    esac
}
complete -F _gossamer gossamer
"""

_ZSH = r"""#compdef gossamer
# Completion of gossamer for zsh; made by `gossamer completion zsh`.
_gossamer() {
    local -a answer found
    answer=("${(@f)$(_GOSSAMER_COMPLETE=zsh "${(Q)words[1]}" \
        "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    case $answer[1] in
        files) _files ;;
        directories) _files -/ ;;
        *)
            found=("${(@)answer[2,-1]}")
            (( $#found )) && _describe -V gossamer found
            ;;
    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _gossamer "$@"
else
    compdef _gossamer gossamer
fi
"""

_FISH = r"""# Completion of gossamer for fish; made by `gossamer completion fish`.
function __gossamer_complete
    set -l words (commandline -opc)
    set -l command $words[1]
    set -e words[1]
    set -l current (commandline -ct)
    set -l plain (string unescape -- $current)
    set -q plain[1]; or set plain $current
    set -q plain[1]; or set plain ''
    set -l answer (env _GOSSAMER_COMPLETE=fish $command $words $plain 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path $current
        case directories
            __fish_complete_directories $current
        case '*'
            set -e answer[1]
            string join \n -- $answer
    end
end
complete -c gossamer -f -a '(__gossamer_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

_ZSH_LINES = "fpath+=(~/.zfunc)\nautoload -Uz compinit && compinit\n"


class UnknownShellError(WrongValueError):
    """No script for this shell."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"SHELL: got {got!r}, expected one of {', '.join(SCRIPTS)}")


def shell_of_user() -> str:
    """The shell that runs this command, or else that of the user.

    Raises:
        UnknownShellError: there is no script for it.
    """
    found = _parent() or Path(os.environ.get("SHELL", "")).name
    if found not in SCRIPTS:
        raise UnknownShellError(got=found)
    return found


def _parent() -> str:
    """The nearest process above that is a shell we know."""
    try:
        # typer's own; what it raises where it finds none is of no class that is known without it.
        name, _ = import_module("shellingham").detect_shell()
    except Exception:  # noqa: BLE001
        return ""
    return name if name in SCRIPTS else ""


def install(shell: str, home: Path) -> list[Path]:
    """Put the script where ``shell`` finds it, below ``home``; the files that were written or are right."""
    if shell == "bash":
        script = home / ".local/share/bash-completion/completions/gossamer"
        # bash-completion loads it from there by itself; where that is missing, this line does.
        source = f'[ -r "{script}" ] && . "{script}"\n'
        return [_write(script, _BASH), _with_lines(home / ".bashrc", source)]
    if shell == "zsh":
        return [_write(home / ".zfunc/_gossamer", _ZSH), _with_lines(home / ".zshrc", _ZSH_LINES)]
    return [_write(home / ".config/fish/completions/gossamer.fish", _FISH)]


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def _with_lines(file: Path, lines: str) -> Path:
    there = file.read_text(encoding="utf-8") if file.exists() else ""
    if lines not in there:
        between = "" if not there or there.endswith("\n") else "\n"
        with file.open("a", encoding="utf-8") as opened:
            opened.write(between + lines)
    return file

"""Completion of commands and options in shells.

The parser's own scripts start Python at every Tab, which takes a third of a second; these need only the shell.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from dlhmc.cli.listing import Option

Shell = Literal["bash", "zsh", "fish"]
_HELP = ("--help", "--help-all")


def script(shell: Shell, commands: Mapping[str, str], options: Mapping[str, Sequence[Option]]) -> str:
    """What a shell has to read: the commands, each with its purpose, and their options with the values of these."""
    if shell == "fish":
        return _fish(commands, options)
    cases, values = [], []
    for command, known in options.items():
        cases.append(f"        {command}) options='{_words([*spellings(known), *_HELP])}' ;;")
        for option in known:
            few = f"values='{_words(option.choices)}' ;;"
            values += [f"        '{command} {name}') {few}" for name in option.names if option.choices]
    lines = ["    case $command in", *cases, "    esac", '    case "$command $previous" in', *values, "    esac"]
    return {"bash": _bash, "zsh": _zsh}[shell](_words(commands), "\n".join(lines))


def spellings(options: Iterable[Option]) -> list[str]:
    """All that may stand on a command line."""
    return [name for option in options if not option.positional for name in option.names]


def _words(shell_words: Iterable[str]) -> str:
    words = list(shell_words)
    # They go into the script as they are.
    if not all(re.fullmatch(r"[A-Za-z0-9.-]+", word) for word in words):
        raise ValueError(f"not plain words: {words}")
    return " ".join(words)


def _bash(commands: str, cases: str) -> str:
    return f"""\
# dlhmc completion bash: source this file, or put it into ~/.local/share/bash-completion/completions/dlhmc
_dlhmc() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}}
    local options='' values=''
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W '{commands} --help --version' -- "$current"))
        return
    fi
{cases}
    if [[ $values && $current != -* ]]; then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    fi
}}
# Where nothing of ours fits, files do.
complete -o default -F _dlhmc dlhmc
"""


def _zsh(commands: str, cases: str) -> str:
    return f"""\
#compdef dlhmc
# dlhmc completion zsh: put this into a file _dlhmc in a folder of $fpath, or source it after compinit
_dlhmc() {{
    local command=${{words[2]}} previous=${{words[CURRENT-1]}} options='' values=''
    if ((CURRENT == 2)); then
        compadd -- {commands} --help --version
        return
    fi
{cases}
    if [[ -n $values && $PREFIX != -* ]]; then
        compadd -- ${{=values}}
    elif [[ $PREFIX == -* ]]; then
        compadd -- ${{=options}}
    else
        _files
    fi
}}
if [[ $funcstack[1] == _dlhmc ]]; then
    _dlhmc "$@"
else
    compdef _dlhmc dlhmc
fi
"""


def _fish(commands: Mapping[str, str], options: Mapping[str, Sequence[Option]]) -> str:
    lines = ["# dlhmc completion fish: put this into ~/.config/fish/completions/dlhmc.fish"]
    for name, purpose in commands.items():
        lines.append(f"complete -c dlhmc -n __fish_use_subcommand -f -a {_words([name])} -d {_quoted(purpose)}")
    for name in options:
        when = f"complete -c dlhmc -n '__fish_seen_subcommand_from {_words([name])}'"
        lines += [f"{when} -f -l {word[2:]} -d {_quoted('show the options')}" for word in _HELP]
        for option in options[name]:
            # -f: no value; -x: one, which is no file; -r: one, which may be a file
            takes = "-f" if option.is_switch else "-x" if option.choices else "-r"
            few = f" -a '{_words(option.choices)}'" if option.choices else ""
            for word in spellings([option]):
                lines.append(f"{when} {takes} -l {_words([word[2:]])}{few} -d {_quoted(option.meaning)}")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """As one word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

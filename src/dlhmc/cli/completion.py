"""Completion of commands and options in shells."""

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import tyro

Shell = Literal["bash", "zsh"]
_POSITIONAL = typing.get_args(tyro.conf.Positional[int])[1]


def options_of(command: type[Any]) -> dict[str, tuple[str, ...]]:
    """The options of a command that is a dataclass, each with the values it may take, if they are few.

    >>> @dataclasses.dataclass
    ... class Greet:
    ...     warmly: bool = False
    ...     tongue: Literal["english", "latin"] = "english"
    >>> options_of(Greet)
    {'--warmly': (), '--no-warmly': (), '--tongue': ('english', 'latin')}
    """
    options: dict[str, tuple[str, ...]] = {}
    hints = typing.get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        marks, hint = _unwrap(hints[field.name])
        if _POSITIONAL in marks:
            continue
        if dataclasses.is_dataclass(hint):
            options |= options_of(typing.cast(type[Any], hint))
            continue
        name = field.name.replace("_", "-")
        aliases = [alias for mark in marks for alias in getattr(mark, "aliases", None) or ()]
        options |= dict.fromkeys([f"--{name}", *aliases], _choices(hint))
        if hint is bool and tyro.conf.FlagCreatePairsOff not in marks:
            options[f"--no-{name}"] = ()
    return options


def script(shell: Shell, commands: Mapping[str, Mapping[str, Iterable[str]]]) -> str:
    """What a shell has to read: the commands with their options and the values of these."""
    options, values = [], []
    for command, choices in commands.items():
        options.append(f"        {command}) options='{_words([*choices, '--help'])}' ;;")
        values += [f"        '{command} {option}') values='{_words(few)}' ;;" for option, few in choices.items() if few]
    return {"bash": _bash, "zsh": _zsh}[shell](_words(commands), "\n".join(options), "\n".join(values))


def _unwrap(hint: Any) -> tuple[tuple[Any, ...], Any]:
    """What is marked about a type, and the type, which may be absent."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *marks = typing.get_args(hint)
        more, inner = _unwrap(inner)
        return (*marks, *more), inner
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return _unwrap(next(part for part in typing.get_args(hint) if part is not types.NoneType))
    return (), hint


def _choices(hint: Any) -> tuple[str, ...]:
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return _choices(typing.get_args(hint)[0])
    return ()


def _words(shell_words: Iterable[str]) -> str:
    words = list(shell_words)
    # They go into the script as they are.
    if not all(re.fullmatch(r"[A-Za-z0-9.-]+", word) for word in words):
        raise ValueError(f"not plain words: {words}")
    return " ".join(words)


def _bash(commands: str, options: str, values: str) -> str:
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
    case $command in
{options}
    esac
    case "$command $previous" in
{values}
    esac
    if [[ $values && $current != -* ]]; then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    fi
}}
# Where nothing of ours fits, files do.
complete -o default -F _dlhmc dlhmc
"""


def _zsh(commands: str, options: str, values: str) -> str:
    return f"""\
#compdef dlhmc
# dlhmc completion zsh: put this into a file _dlhmc in a folder of $fpath, or source it after compinit
_dlhmc() {{
    local command=${{words[2]}} previous=${{words[CURRENT-1]}} options='' values=''
    if ((CURRENT == 2)); then
        compadd -- {commands} --help --version
        return
    fi
    case $command in
{options}
    esac
    case "$command $previous" in
{values}
    esac
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

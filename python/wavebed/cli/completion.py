"""Write the completion of a shell from the parsers: ``python -m wavebed.cli.completion bash|zsh|fish FILE``."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from wavebed.cli.tree import commands
from wavebed.output import write_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wavebed.cli.tree import Command, Operand

__all__ = ["SHELLS", "completion"]

_MOST_HELP = 70


def completion(shell: str) -> str:
    """Return the script for ``bash``, ``zsh`` or ``fish``."""
    return SHELLS[shell](commands())


def _one_line(text: str) -> str:
    """Return the first clause of a help text, without what shells expand."""
    first = re.split(r"[;:.](?: |$)", re.sub(r" ?\([^)]*\)", "", text), maxsplit=1)[0]
    if len(first) > _MOST_HELP:
        first = first[: _MOST_HELP - 1].rsplit(" ", 1)[0] + " …"
    return re.sub(r"[`'\"\\$\[\]]", "", first).strip()


# bash

_BASH = """\
# Completion of wavebed for bash; made from the program.
_wavebed() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command="" takes="" words="" options="" at
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [ "${COMP_WORDS[at]}" = -- ]; then
            if ((at + 1 == COMP_CWORD)); then takes=command; else takes=file; fi
            break
        fi
        case "$command ${COMP_WORDS[at]}" in
@STEPS@
        esac
    done
    if [ -z "$takes" ]; then
        case "$command $before" in
@VALUES@
        *)
            case "$command" in
@COMMANDS@
            esac
            ;;
        esac
    fi
    case "$takes" in
    file) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    command) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
    esac
    case "$takes" in file | folder) compopt -o filenames 2>/dev/null ;; esac
    case "$word" in -*) words+=" $options" ;; esac
    if [ -n "$words" ]; then
        local found
        while read -r found; do COMPREPLY+=("$found"); done < <(compgen -W "$words" -- "$word")
    fi
}
complete -F _wavebed wavebed
"""


def _bash(tree: Sequence[Command]) -> str:
    steps = []
    for command in tree:
        if command.path:
            name = " ".join(command.path)
            steps.append(f'        "{name if len(command.path) > 1 else f" {name}"}") command="{name}" ;;')
    values = [line for command in tree for line in _bash_values(command)]
    cases = [line for command in tree for line in _bash_command(command)]
    parts = {"STEPS": steps, "VALUES": values, "COMMANDS": cases}
    return re.sub(r"@(\w+)@", lambda found: "\n".join(parts[found[1]]), _BASH)


def _bash_values(command: Command) -> Iterator[str]:
    for option in command.options:
        if option.value:
            patterns = " | ".join(f'"{" ".join(command.path)} {flag}"' for flag in option.flags)
            yield f'        {patterns}) takes={option.takes or "value"} words="{" ".join(option.words)}" ;;'


def _bash_command(command: Command) -> Iterator[str]:
    words = [*command.verbs, *(word for operand in command.arguments for word in operand.words)]
    takes = next((operand.takes for operand in command.arguments if operand.takes), "")
    options = " ".join(flag for option in command.options for flag in option.flags)
    yield f'            "{" ".join(command.path)}") takes={takes} words="{" ".join(words)}" options="{options}" ;;'


# zsh


def _zsh(tree: Sequence[Command]) -> str:
    parts = ["#compdef wavebed\n# Completion of wavebed for zsh; made from the program.\n"]
    parts += [_zsh_function(command, tree) for command in tree]
    return "\n".join([*parts, '_wavebed "$@"\n'])


def _zsh_function(command: Command, tree: Sequence[Command]) -> str:
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    if not command.verbs:
        specs += [_zsh_argument(operand, runs=command.runs) for operand in command.arguments]
        return f"{_zsh_name(command.path)}() {{\n    _arguments -s -S {' '.join(specs)}\n}}\n"
    listed = [
        f"        '{verb}:{_one_line(_summary(tree, (*command.path, verb))).replace(':', '')}'"
        for verb in command.verbs
    ]
    lines = [
        f"{_zsh_name(command.path)}() {{",
        "    local state line; local -a names",
        f"    _arguments -C {' '.join(specs)} '1: :->name' '*:: :->rest'",
        "    case $state in",
        "    name)",
        "        names=(",
        *(f"    {line}" for line in listed),
        "        )",
        "        _describe command names",
        "        ;;",
        "    rest)",
        "        case $line[1] in",
        *(f"        {verb}) {_zsh_name((*command.path, verb))} ;;" for verb in command.verbs),
        "        esac",
        "        ;;",
        "    esac",
        "}\n",
    ]
    return "\n".join(lines)


def _zsh_name(path: Sequence[str]) -> str:
    return "_".join(["_wavebed", *path])


def _summary(tree: Sequence[Command], path: tuple[str, ...]) -> str:
    return next(command.summary for command in tree if command.path == path)


def _zsh_option(option: Operand) -> Iterator[str]:
    for flag in option.flags:
        value = f":{_plain(option.value)}:{_zsh_values(option)}" if option.value else ""
        yield f"'{flag}[{_one_line(option.help)}]{value}'"


def _zsh_argument(operand: Operand, *, runs: bool) -> str:
    if runs:
        return "'*::command:_normal'"
    return f"'{'*' if operand.many else ''}:{_plain(operand.value)}:{_zsh_values(operand)}'"


def _plain(value: str) -> str:
    return re.sub(r"[^\w|/=-]", " ", value).strip() or "value"


def _zsh_values(operand: Operand) -> str:
    words = f"({' '.join(operand.words)})" if operand.words else ""
    names = {"file": "_files", "folder": "_files -/", "": ""}[operand.takes]
    if words and names:
        return f'{{_alternative "words:name:{words}" "files:file:{names}"}}'
    return words or names or " "


# fish

_FISH = """\
# Completion of wavebed for fish; made from the program.
function __wavebed_in
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end
function __wavebed_next
    set -l words (commandline -opc)
    test (count $words) -eq (math 1 + (count $argv)); and __wavebed_in $argv
end
complete -c wavebed -f"""


def _fish(tree: Sequence[Command]) -> str:
    lines = [_FISH]
    for command in tree:
        seen = f"__wavebed_in {' '.join(command.path)}" if command.path else "__fish_use_subcommand"
        following = f"__wavebed_next {' '.join(command.path)}" if command.path else seen
        for verb in command.verbs:
            summary = _one_line(_summary(tree, (*command.path, verb)))
            lines.append(f"complete -c wavebed -n '{following}' -a {verb} -d '{summary}'")
        for option in command.options:
            flags = " ".join(_fish_flag(flag) for flag in option.flags)
            lines.append(f"complete -c wavebed -n '{seen}' {flags}{_fish_value(option)} -d '{_one_line(option.help)}'")
        lines += [
            f"complete -c wavebed -n '{seen}'{_fish_value(operand, required=False)}"
            for operand in command.arguments
            if operand.words or operand.takes or command.runs
        ]
    return "\n".join(lines) + "\n"


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _fish_value(operand: Operand, *, required: bool = True) -> str:
    if not operand.value:
        return ""
    parts = ["-r"] if required else []
    parts.append("-F" if operand.takes else "-f" if required else "")
    if operand.words:
        parts.append(f"-a '{' '.join(operand.words)}'")
    return "".join(f" {part}" for part in parts if part)


SHELLS: Mapping[str, Callable[[Sequence[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}


if __name__ == "__main__":
    write_output(sys.argv[2], completion(sys.argv[1]), "FILE")

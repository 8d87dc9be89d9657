"""``neuro completion bash|zsh|fish``: a script that lets a shell complete verbs, groups, options, keys and run folders."""

import importlib
from pathlib import Path

from neuro_cli.cli.arguments import Parser
from neuro_cli.cli.options.groups import choices_of, groups_of, options_in
from neuro_cli.cli.options.help import leaves_of
from neuro_cli.cli.registry import HELP, listed
from neuro_cli.core.files import config_folder

RUN_VERBS = {  # verbs that take a run folder, and where the keys after it are listed
    "resume": ("neuro_cli.cli.verbs.resume", "CHANGES"),
    "evaluate": ("neuro_cli.cli.verbs.evaluate", "EVALUATE_KEYS"),
    "export": ("neuro_cli.cli.verbs.export", "EXPORT_KEYS"),
    "predict": ("neuro_cli.cli.verbs.export", "PREDICT_KEYS"),
    "report": ("neuro_cli.cli.verbs.report", "REPORT_KEYS"),
}
SECOND = {"evolve": ("export",), "search": ("certs", "status"), "completion": ("bash", "zsh", "fish")}
FLAGS = ("--help", "--cfg", "-m", "-q", "-v")
SHELLS = {
    "bash": """# eval "$(neuro completion bash)"
_neuro() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$'\\n'
    local word="${line##* }"
    COMPREPLY=($(neuro completion query "$line" 2>/dev/null))
    # bash takes what stands behind = for a word of its own
    case "$word" in *=*) COMPREPLY=("${COMPREPLY[@]#*=}") ;; esac
}
complete -o default -o nospace -F _neuro neuro
""",
    "zsh": """# eval "$(neuro completion zsh)", after compinit
_neuro() {
    local -a found
    found=("${(@f)$(neuro completion query "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    compadd -Q -S '' -- $found
    [[ $compstate[nmatches] -gt 0 ]] || _files
}
compdef _neuro neuro
""",
    "fish": """# neuro completion fish | source
complete -c neuro -a '(neuro completion query (commandline -cp | string collect) 2>/dev/null | string trim)'
""",
}


def completion_verb(arguments: list[str]) -> int:
    if arguments[:1] == ["query"]:
        print(*(_ended(word) for word in candidates(" ".join(arguments[1:]))), sep="\n")
        return 0
    parser = Parser("neuro completion", description=HELP["completion"], usage="neuro completion bash|zsh|fish")
    parser.add_argument("shell", choices=SHELLS)
    print(SHELLS[parser.parse_args(arguments).shell], end="")
    return 0


def _ended(word: str) -> str:
    """Return a word with a blank behind it where it is complete; shells add none of their own."""
    return word if word.endswith(("=", ".")) else f"{word} "


def candidates(line: str) -> list[str]:
    """Return the completions of the last word of a command line. The word is empty after a blank."""
    words = line.split()
    word = "" if not words or line.endswith(" ") else words.pop()
    if len(words) < 2:
        return _beginning(word, list(listed()) if words else [])
    verb = words[1]
    if verb == "help":
        return _beginning(word, list(listed())) if len(words) == 2 else []
    if verb in RUN_VERBS:
        folders = _folders() if len(words) == 2 or verb == "report" else []
        # a file may come too, and the shell completes those where nothing else fits
        return _beginning(word, [*folders, *(_keys_of(verb) if len(words) > 2 and word else [])])
    more = list(SECOND.get(verb, ())) if len(words) == 2 else []
    if not (config_folder() / f"{verb}.yaml").is_file():
        return _beginning(word, more)
    key, equals, _ = word.lstrip("+").partition("=")
    if equals:
        added = "+" if word.startswith("+") else ""
        return _beginning(word, [f"{added}{key}={option}" for option in options_in(key)] if key in groups_of(verb) else [])
    pairs = [text.lstrip("+").partition("=") for text in words[2:]]
    choices = choices_of(verb, {group: option.partition(",")[0] for group, _, option in pairs})  # a sweep's first
    names = (*(group for group in groups_of(verb) if "@" not in group), *leaves_of(verb, choices))
    keys = [f"{key}=" for key in names if key not in {typed for typed, _, _ in pairs}]
    if "." not in word:  # keys below another one come when that one is typed
        keys = [key if "." not in key else f"{key.partition('.')[0]}." for key in keys]
    return _beginning(word, [*more, *keys, *FLAGS])


def _beginning(word: str, texts: list[str]) -> list[str]:
    return sorted({text for text in texts if text.startswith(word)})


def _keys_of(verb: str) -> list[str]:
    """Return the keys that a verb takes after its run folder."""
    module, name = RUN_VERBS[verb]
    return [key if key.endswith(".") else f"{key}=" for key in getattr(importlib.import_module(module), name)]


def _folders() -> list[str]:
    """Return the run folders that neuro named, and ``latest``."""
    folders = [str(path) for path in Path("outputs").glob("*/*") if path.is_dir()]
    return ["latest", *folders] if folders else []

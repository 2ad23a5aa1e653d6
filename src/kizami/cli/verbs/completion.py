"""`kizami completion`: the script that lets a shell complete verbs, options and metrics."""

from __future__ import annotations

import click

from kizami.cli.exit_codes import FAILURE

_INSTALL = {
    "bash": 'add to ~/.bashrc:  eval "$(kizami completion bash)"',
    "zsh": 'add to ~/.zshrc:  eval "$(kizami completion zsh)"',
    "fish": "run once:  kizami completion fish > ~/.config/fish/completions/kizami.fish",
}

# Where Click's scripts fall short. zsh knows `compdef` only after `compinit`, which a fresh ~/.zshrc does not call
# (-i: it asks nothing about directories of others); fish would cut a description at its first comma.
_COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }"
_BETTERED = {
    "zsh": ("    compdef ", f"    {_COMPINIT}\n    compdef "),
    "fish": ('string split "," ', 'string split --max 1 "," '),
}


@click.command(
    short_help="Print the completion script of your shell.",
    epilog="\b\n" + "\n".join(f"{shell}: {words}" for shell, words in _INSTALL.items()),
)
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the script that completes kizami's verbs, options and metrics in SHELL."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is None:
        return FAILURE
    script = completion(context.find_root().command, {}, "kizami", "_KIZAMI_COMPLETE").source()
    click.echo(script.replace(*_BETTERED[shell]) if shell in _BETTERED else script)
    return 0

"""`kizami completion`: the script that lets a shell complete verbs, options and metrics."""

from __future__ import annotations

import click

from kizami.cli.exit_codes import FAILURE

_INSTALL = {
    "bash": 'add to ~/.bashrc:  eval "$(kizami completion bash)"',
    "zsh": 'add to ~/.zshrc:  eval "$(kizami completion zsh)"',
    "fish": "run once:  kizami completion fish > ~/.config/fish/completions/kizami.fish",
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
    click.echo(completion(context.find_root().command, {}, "kizami", "_KIZAMI_COMPLETE").source())
    return 0

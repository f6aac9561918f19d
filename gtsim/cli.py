"""The command `gtsim`: errors become one line and an exit status."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from .interrupt import asked, ends_at_once, leave

#: Exit status after Ctrl-C.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 fine, 1 the kernel, graph or GPU is at fault, 2 usage, 3 `check` found errors, 130 Ctrl-C.

    `--debug` may stand anywhere and shows tracebacks and what TileLang printed.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    with ends_at_once(_interrupted):
        status = run([a for a in given if a != "--debug"], debug=debug)
        if status == INTERRUPTED:
            leave(status)
    sys.exit(status)


def _interrupted(stderr: int) -> None:
    with contextlib.suppress(OSError):
        os.write(stderr, b"interrupted\n")
    leave(INTERRUPTED)


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run the command and return its exit status."""
    try:
        return _invoke(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`gtsim hw list | head -1`): say no more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if asked():
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        from .errors import USER_ERRORS, exit_code

        if debug:
            print(getattr(error, "printed", ""), end="", file=sys.stderr)
            raise
        if isinstance(error, USER_ERRORS):
            print(f"error: {error}", file=sys.stderr)
        else:
            print(f"error: gtsim failed unexpectedly: {type(error).__name__}: {error}\nRun again with --debug and report what it "
                  "shows.", file=sys.stderr)
        return exit_code(error)


def _invoke(arguments: list[str]) -> int:
    import typer

    from .commands import app

    # Typer brings its own click; its error classes are reached through the public one.
    click_error: type[Exception] = typer.BadParameter.__mro__[2]
    command = typer.main.get_command(app)
    try:
        # What `command.main` does, but for its own handling of Ctrl-C.
        with command.make_context("gtsim", arguments) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except click_error as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
            print(message, file=sys.stderr)
            return 2
        print(f"error: {message.rstrip('.')}. See gtsim --help.", file=sys.stderr)
        return int(getattr(error, "exit_code", 2))
    return 0

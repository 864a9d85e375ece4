"""The same command as `meanfield`, and what both begin with."""

import signal


def main() -> None:
    """Runs the command line; until that watches for it, Ctrl-C just ends the process.

    Importing takes a third of a second, in which Python would answer with a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as command

    command()


if __name__ == "__main__":
    main()

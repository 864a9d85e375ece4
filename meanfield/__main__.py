"""Entry point of `python -m meanfield` and of the `meanfield` command."""

import signal


def main() -> None:
    """Runs the command line.

    Until the command line handles Ctrl-C itself, Ctrl-C ends the process quietly:
    during the third of a second that imports take, Python would otherwise print a
    traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as command

    command()


if __name__ == "__main__":
    main()

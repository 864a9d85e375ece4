"""Entry point of `python -m meanfield` and of the `meanfield` command."""

import signal


def main() -> None:
    """Runs the command line.

    The imports take a third of a second. Ctrl-C during that time ends the process
    without the traceback that Python would print; afterwards the command line handles
    Ctrl-C itself.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as command

    command()


if __name__ == "__main__":
    main()

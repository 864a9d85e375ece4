"""The command line as `python -m meanfield`, for where no script is on the path."""

from .cli import main

if __name__ == "__main__":
    main()

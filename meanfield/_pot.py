"""POT (Python Optimal Transport), imported without printing to standard output.

POT imports KeOps if it is installed, and KeOps prints a warning, which would corrupt
the JSON that a command prints.
"""

import contextlib
import sys

with contextlib.redirect_stdout(sys.stderr):
    import ot as ot

"""POT, in silence.

It imports KeOps where that is installed, which writes a warning to standard output: it
would stand before the JSON of a command.
"""

import contextlib
import sys

with contextlib.redirect_stdout(sys.stderr):
    import ot as ot

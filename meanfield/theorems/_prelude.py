"""Names that every module of statements imports."""

from ._case import Case as Case
from ._check import Check as Check
from ._check import Checks as Checks
from ._statement import Counterexample as Counterexample
from ._statement import statement as statement

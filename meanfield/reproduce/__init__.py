"""Figures of the papers, found by name and drawn again."""

from ._experiment import Case as Case
from ._experiment import Experiment as Experiment
from ._experiment import Findings as Findings
from ._experiment import Reading as Reading
from ._experiment import Rows as Rows
from ._experiment import Size as Size
from ._files import load as load
from ._files import names as names
from ._files import root as root
from ._files import select_experiments as select_experiments
from ._run import ReproducedFigure as ReproducedFigure
from ._run import reproduce as reproduce

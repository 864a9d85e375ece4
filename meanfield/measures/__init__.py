from ._gaussian import Gaussian as Gaussian
from ._measure import AbstractMeasure as AbstractMeasure
from ._points import Points as Points
from ._reduction import AbstractReduction as AbstractReduction
from ._reduction import Blocked as Blocked
from ._reduction import Dense as Dense
from ._reduction import Link as Link

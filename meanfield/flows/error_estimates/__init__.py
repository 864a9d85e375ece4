from ._error_estimate import ErrorEstimate as ErrorEstimate
from ._error_estimate import error_estimate as error_estimate

"""Energies of measures, their first variations, and gradient flows."""

from ._energy import AbstractEnergy as AbstractEnergy
from ._energy import Combination as Combination
from ._energy import attention_energies as attention_energies
from ._energy import energies as energies
from ._energy import energy_of_attention as energy_of_attention
from ._energy import energy_of_measure as energy_of_measure
from ._energy import measure_energies as measure_energies
from ._variation import AbstractVariation as AbstractVariation
from .descent import steepest_rate as steepest_rate
from .dissipation import dissipation as dissipation
from .divergence import SinkhornDivergence as SinkhornDivergence
from .entropy import Entropy as Entropy
from .gradient_flow import AbstractMetric as AbstractMetric
from .gradient_flow import GradientFlow as GradientFlow
from .gradient_flow import TwistedMetric as TwistedMetric
from .gradient_flow import Wasserstein as Wasserstein
from .interaction import Interaction as Interaction
from .internal import InternalEnergy as InternalEnergy
from .jko import bures_squared as bures_squared
from .jko import jko_step as jko_step
from .logarithmic import LogarithmicAttraction as LogarithmicAttraction
from .potential import Potential as Potential
from .potential import QuadraticPotential as QuadraticPotential
from .self_transport import SinkhornEnergy as SinkhornEnergy

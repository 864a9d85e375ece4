"""The blocks of one layer in NumPy: their weights, outputs and spectra."""

from ._parts import ACTIVATIONS as ACTIVATIONS
from ._parts import Parts as Parts
from ._parts import attention_output as attention_output
from ._parts import layer_norm as layer_norm
from ._spectra import Eigenvalues as Eigenvalues
from ._spectra import HeadSpectra as HeadSpectra
from ._spectra import eigenvalues as eigenvalues
from ._spectra import spectra as spectra
from ._weights import HeadWeights as HeadWeights

"""Expected sliced transport attention, which matches tokens by ranks on slices."""

from ._hard import HardSlices as HardSlices
from ._sliced_variants import esp as esp
from ._sliced_variants import esp_soft as esp_soft
from ._sliced_variants import esp_soft_published as esp_soft_published
from ._soft import AbstractSoftSlices as AbstractSoftSlices
from ._soft import GaussianSoftSlices as GaussianSoftSlices
from ._soft import PublishedSoftSlices as PublishedSoftSlices
from ._soft import SoftSlices as SoftSlices

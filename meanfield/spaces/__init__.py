"""Spaces that tokens move in: Euclidean space and spheres. Imported lazily."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._space import AbstractSpace as AbstractSpace
    from ._space import Ambient as Ambient
    from ._space import Euclidean as Euclidean
    from ._space import tokens_in as tokens_in
    from .layer_normed import LayerNormed as LayerNormed
    from .named import space_named as space_named
    from .named import spaces as spaces
    from .sphere import Sphere as Sphere

__getattr__, __dir__, __all__ = lazy_exports(__name__)

"""Conversion between trees of arrays and named arrays."""

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from meanfield.errors import StoreError

from ._old_names import rename_array

Tree = TypeVar("Tree")


def arrays_by_name(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by path, such as `encoder.blocks.0.norm.weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def fill_template(template: Tree, arrays: Mapping[str, np.ndarray], where: str) -> Tree:
    """The template with its arrays replaced by the named ones.

    The template may have `jax.ShapeDtypeStruct`s in place of arrays. The networks of a
    plugin may use array names from before version 0.3; `rename_array` translates them.

    Raises:
        StoreError: if an array is missing, or has another shape or dtype.
    """

    def take(path: tuple[Any, ...], leaf: Any) -> Any:
        if not (eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)):
            return leaf
        name = _name(path)
        array = arrays.get(name, arrays.get(rename_array(name)))
        if array is None or (array.shape, array.dtype) != (leaf.shape, leaf.dtype):
            raise StoreError(
                f"{where} has no array `{name}` of shape {leaf.shape}: it belongs to "
                "another training run, or to another version of the network."
            )
        return jax.numpy.asarray(array)

    return jax.tree_util.tree_map_with_path(take, template)


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of named arrays, shapes and dtypes included."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")

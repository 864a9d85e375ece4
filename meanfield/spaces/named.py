"""Spaces by name; each module imported here registers its space."""

from meanfield.errors import InvalidInputError

from . import layer_normed as layer_normed
from . import sphere as sphere
from ._space import AbstractSpace
from ._space import spaces as spaces


def space_named(text: str, d: int) -> AbstractSpace:
    """A space by name, with its numbers: `sphere`, `sphere:2`.

    `sphere:rms` is the sphere of radius √d.

    Args:
        text: the name, and after a colon the numbers.
        d: the dimension of the surrounding space.

    Raises:
        InvalidInputError: if the numbers are invalid, or the space needs a larger `d`.
        UnknownNameError: if there is no such space.

    Examples:
        >>> from meanfield.spaces import space_named
        >>> space_named("sphere:2", 3)
        Sphere(radius=2.0)
    """
    name, _, rest = text.partition(":")
    make = spaces[name]
    try:
        space = make.from_text(rest, d) if rest else make()
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(
            f"The numbers of the space `{name}` must be {make.numbers}; got `{rest}`."
        ) from error
    space.check_dimension(d)
    return space

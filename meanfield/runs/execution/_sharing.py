"""What devices share of a run, and what processes do: tokens, or whole members."""

from collections.abc import Sequence

from meanfield.devices import Layout
from meanfield.errors import InvalidInputError
from meanfield.runs.building._build import Member, side_by_side
from meanfield.runs.building._tokens import refuse_alone
from meanfield.runs.representations import representations
from meanfield.spec import RunSpec


def refuse_layout(spec: RunSpec, layout: Layout) -> None:
    """Refuses what one device does alone, or devices that would have nothing to do.

    Raises:
        InvalidInputError: if the spec asks for such.
    """
    refuse_alone(spec)
    has_tokens = representations[spec.measure].shares_tokens
    if spec.draws and not has_tokens and layout.size > layout.processes:
        raise InvalidInputError(
            f"`measure = {spec.measure}` has no tokens for devices to share; processes "
            "share its draws, each with one device: take `--processes` alone."
        )


def shares_members(spec: RunSpec, members: Sequence[Member]) -> bool:
    """Whether several processes share members, and not the tokens of each.

    They do if members move side by side, or are draws that have no tokens.
    """
    if side_by_side(spec, members):
        return True
    return len(members) > 1 and not representations[spec.measure].shares_tokens

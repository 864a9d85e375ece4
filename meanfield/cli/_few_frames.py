"""How to see more of a blow-up, of which few frames were asked for."""

import math

from meanfield.spec import RunSpec

FEW = 12  # frames of a blow-up below which a command says how to have more


def more_frames(spec: RunSpec | None, stored: int, t_star: float) -> str:
    """What to do for more frames of a run that stored so many; empty if it has enough.

    Args:
        spec: of the run, if it has one.
        stored: frames of the run, the last of which is where it ended.
        t_star: its time; NaN if there is none.
    """
    if spec is None or spec.times is not None or spec.is_family:
        return ""
    kept = stored - 1
    if not math.isfinite(t_star) or kept >= min(FEW, spec.frames - 1):
        return ""
    return (
        f"{kept} of {spec.frames} lie before t*, too few to see it by: run it again "
        f"with --t {1.02 * t_star:.3g}"
    )

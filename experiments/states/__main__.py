"""The command line of stationary states: `python -m experiments.states`."""

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import App, Parameter

from meanfield import plotting
from meanfield.errors import InvalidInputError, MeanfieldError

from .branch import Branch, follow_branch
from .equation import StateEquation, check_attention
from .kernel import ZonalKernel
from .picture import draw_branch

N_ROWS = 12  # states in the table
SPACES = {"circle": 2, "sphere": 3}  # with the default dimension


def states(
    *,
    attention: str = "exp",
    beta: float = 1.0,
    space: str = "circle",
    d: int | None = None,
    noise: Annotated[str | None, Parameter(metavar="LOW:HIGH")] = None,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Continue stationary densities of noisy attention through folds.

    For example:
        python -m experiments.states --attention exp --beta 5 --noise 4.8:5.5
        python -m experiments.states --space sphere --d 8 --beta 3 --out branch.png
        python -m experiments.states --attention softmax --beta 9 --json

    Args:
        attention: exp, softmax, or kuramoto (constant weights), with A = V = I.
        beta: inverse bandwidth of the scores.
        space: circle or sphere.
        d: dimension of the space around the sphere; 2 or 3 if absent.
        noise: smallest and largest diffusivity; 0.8 to 2 times the threshold of the
            uniform density if absent.
        out: picture (.png, .pdf, .svg) or table (.csv, .nc) of the branch.
        force: whether to replace an existing file (flag).
        json: JSON object on stdout instead of tables (flag).

    Raises:
        InvalidInputError: if an option is invalid, or the flow is no gradient flow.
        NotClosedError: if no state was found at the smallest diffusivity.
    """
    if out is not None and out.exists() and not force:
        raise InvalidInputError(f"`{out}` exists; give `--force` to replace it.")
    kernel = ZonalKernel.from_beta(beta, _dimension(space, d))
    equation = StateEquation(check_attention(attention), kernel)
    low, high = _interval(noise, equation.threshold())
    branch = follow_branch(equation, low, high)
    if json:
        sys.stdout.write(dumps(_summary(branch)) + "\n")
    else:
        _print(branch)
    if out is not None:
        _write(branch, out)
        sys.stderr.write(f"wrote {out}\n")


def _dimension(space: str, d: int | None) -> int:
    if space not in SPACES:
        raise InvalidInputError(f"`space` must be circle or sphere; got `{space}`.")
    if space == "circle" and d not in (None, 2):
        raise InvalidInputError(f"The circle has d = 2; got {d}. Use `--space sphere`.")
    return d or SPACES[space]


def _interval(text: str | None, threshold: float) -> tuple[float, float]:
    if text is None:
        return 0.8 * threshold, 2 * threshold
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low, high = np.nan, np.nan
    if not 0 < low < high < np.inf:
        raise InvalidInputError(
            f"`noise` must be LOW:HIGH with 0 < LOW < HIGH, such as 4.8:5.5; got "
            f"`{text}`."
        )
    return low, high


def _summary(branch: Branch) -> dict[str, object]:
    """The numbers of a branch as JSON values."""
    return {
        "attention": branch.equation.attention,
        "beta": branch.equation.kernel.beta,
        "d": branch.equation.kernel.d,
        "threshold": branch.equation.threshold(),
        "folds": list(branch.folds),
        "transition": branch.transition if np.isfinite(branch.transition) else None,
        "kappa": branch.kappa.tolist(),
        "order": branch.orders.tolist(),
        "free_energy": branch.free_energy.tolist(),
        "growth_rate": branch.growth_rate.tolist(),
    }


def _print(branch: Branch) -> None:
    events = [("uniform density unstable below", branch.equation.threshold())]
    events += [("fold at", fold) for fold in branch.folds]
    events += [("free energy of the uniform density at", branch.transition)]
    for event, kappa in events:
        if np.isfinite(kappa):
            sys.stdout.write(f"{event} κ = {kappa:.12g}\n")
    columns = {"κ": branch.kappa}
    columns |= {f"m_{k + 1}": branch.orders[:, k] for k in range(3)}
    columns |= {"free_energy": branch.free_energy, "growth_rate": branch.growth_rate}
    rows = np.unique(np.linspace(0, len(branch.kappa) - 1, N_ROWS).astype(int))
    sys.stdout.write("  ".join(f"{name:>11}" for name in columns) + "\n")
    for i in rows:
        cells = (f"{values[i]:11.5g}" for values in columns.values())
        sys.stdout.write("  ".join(cells) + "\n")


def _write(branch: Branch, out: Path) -> None:
    """Writes a branch as a picture or a table, by the suffix of the file."""
    dataset = branch.dataset()
    if out.suffix == ".nc":
        dataset.to_netcdf(out)
    elif out.suffix == ".csv":
        orders = dataset["order"].to_dataset("degree")
        names = {k: f"order{k}" for k in orders.data_vars}
        curves = dataset.drop_dims(["node", "degree"]).merge(orders.rename(names))
        curves.to_dataframe().to_csv(out, index=False)
    else:
        plotting.save(draw_branch(dataset), out)


app = App(name="states", default_command=states, result_action="return_value")

if __name__ == "__main__":
    try:
        app()
    except MeanfieldError as error:
        sys.exit(str(error))

"""`meanfield models`: real transformers and their attention flows."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

from meanfield.cli.options._names import rows
from meanfield.cli.options._values import Texts
from meanfield.cli.process._plugins import load_plugins
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import number, print_json, print_pairs, print_rows
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    from meanfield.models import HeadSpectra

app = App(
    name="models",
    result_action="return_value",
    help="Real transformers: list, inspect, compare with their flow.\n\n"
    "`simulate --model` integrates the flow of a text; with `--forward` it runs the "
    "network.",
)


@app.command(name="list")
def list_(*, json: bool = False) -> None:
    """List the registered models and whether they are installed.

    For example:
        meanfield models list

    Args:
        json: JSON on stdout instead of a table (flag).
    """
    (print_json if json else print_rows)(rows("models"))


@app.command
def inspect(
    model: str,
    /,
    *,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Show the sizes of a model, and the spectra of its heads.

    For example:
        meanfield models inspect minilm
        meanfield models inspect minilm --out spectra.png

    A is KᵀQ divided by the scale of the scores; V is the output projection times the
    value matrix. The table has the norms of A and V; the extreme eigenvalues λ of
    the symmetric part of A, and the fraction of Σ|λ| that its negative eigenvalues
    contribute; the norm of the skew part of A; the spectral radius of V; and the
    fraction of eigenvalues of V with positive real part, without those that vanish
    because of its rank.

    Args:
        model: name from `models list`, or folder with model.safetensors.
        out: picture of the eigenvalues of all heads, `.png`, `.pdf` or `.svg`.
        force: whether to replace an existing picture (flag).
        json: JSON on stdout with all digits, instead of tables (flag).
        plugin: Python file that registers an architecture; may be repeated.
    """
    load_plugins(plugin)
    from meanfield import models
    from meanfield.cli.jobs import _models

    _models.check_picture(out, force=force)
    if out is not None:
        _models.draw_heads(model, out)
    with _models.open_model(model, f"reading {model}") as (checkpoint, show):
        summary = models.inspect(checkpoint, report=show)
    if json:
        values = dataclasses.asdict(summary)
        print_json({**values, "folder": str(values["folder"])})
        return
    parameters = f"{summary.n_parameters:,}"
    numbers = {"epsilon": number(summary.epsilon), "parameters": parameters}
    print_pairs({**summary.sizes, **numbers})
    sys.stdout.write("\n")
    print_rows([_row(head) for head in summary.heads])
    sys.stdout.write(
        "sym A, skew A: (A ± Aᵀ)/2. λ < 0: fraction of the sum of moduli. Re λ > 0: "
        "fraction of the eigenvalues that can be nonzero.\n"
    )


def _row(head: "HeadSpectra") -> dict[str, object]:
    return {
        "layer": head.layer,
        "head": head.head,
        "‖A‖": number(head.score_norm, 3),
        "λ of sym A": f"{head.smallest:.3g} … {head.largest:.3g}",
        "λ < 0": f"{100 * head.negative:.0f} %",
        "‖skew A‖": number(head.skew_norm, 3),
        "‖V‖": number(head.value_norm, 3),
        "radius of V": number(head.radius, 3),
        "Re λ > 0": f"{100 * head.positive:.0f} %",
    }


@app.command
def compare(
    model: str,
    /,
    *,
    text: Texts,
    precision: Literal["single", "double"] = "single",
    rtol: float | None = None,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Compare the attention flow of a model with its hidden states.

    For example:
        meanfield models compare minilm --text 'A man is playing a guitar.'
        meanfield models compare minilm --text @alice.txt --rtol 1e-3 --out alice.png
        meanfield models compare minilm --text @alice.txt --text @bob.txt  # a table
        fortune | meanfield models compare minilm --text -

    Flow and network start at the embedding of the text. The network has layer norms and
    MLPs; the flow has attention only, for one unit of time per layer. The first table
    shows, after each layer, the distance between flow and network, and how strongly the
    tokens of each are clustered. The second table shows the parts of the network's
    displacement. For several texts there is one table with a row for each text.

    Args:
        model: name from `models list`, or folder with model.safetensors.
        text: text, @FILE, or - for standard input; may be repeated.
        precision: floating-point precision of the flow; the network is computed in
            double precision.
        rtol: relative tolerance of a step of the flow. [default: 7e-5 in single, 4e-10
            in double precision]
        out: picture of the comparison, `.png`, `.pdf` or `.svg`.
        force: whether to replace an existing picture (flag).
        json: JSON object on stdout with all digits, instead of tables (flag).
        plugin: Python file that registers an architecture; may be repeated.
    """
    open_session(precision)
    load_plugins(plugin)
    from meanfield.cli.jobs import _models

    _models.check_picture(out, force=force)
    if len(text) == 1:
        _models.compare(model, text[0], rtol, out, json=json)
        return
    if out is not None:
        raise InvalidInputError(
            "`--out` is for a single text: leave it out, or give only one `--text`."
        )
    _models.compare_all(model, text, rtol, json=json)

"""`meanfield models`: real transformers."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

from meanfield.cli.options._names import rows
from meanfield.cli.options._values import Texts
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import number, print_json, print_pairs, print_rows
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    from meanfield.models import HeadSpectra

app = App(
    name="models",
    result_action="return_value",
    help="Real transformers: list, inspect, compare with their flow.\n\n"
    "`simulate --model` moves a text, or takes it through the network by `--forward`.",
)


@app.command(name="list")
def list_(*, json: bool = False) -> None:
    """List the models known by name, and whether they are installed.

    For example:
        meanfield models list

    Args:
        json: print JSON on stdout.
    """
    (print_json if json else print_rows)(rows("models"))


@app.command
def inspect(model: str, /, *, out: Path | None = None, json: bool = False) -> None:
    """Show sizes of a model, and the spectra of each head's scores and value.

    For example:
        meanfield models inspect minilm
        meanfield models inspect minilm --out spectra.png

    A is KᵀQ at the scale of the scores, V the value with the output projection. Shown
    are norms, the extreme eigenvalues of the symmetric part of A and what share of
    their moduli is negative, the norm of the skew part; the spectral radius of V and
    the share of its eigenvalues, of those that can be nonzero, with positive real part.

    Args:
        model: a name from `models list`, or a folder with model.safetensors.
        out: file to draw the eigenvalues of all heads to, `.png`, `.pdf` or `.svg`.
        json: print JSON on stdout, with all digits.
    """
    from meanfield import models
    from meanfield.cli.jobs import _models

    if out is not None:
        _models.draw_heads(model, out)
    with _models.reading(model, f"reading {model}") as (checkpoint, show):
        summary = models.inspect(checkpoint, report=show)
    if json:
        values = dataclasses.asdict(summary)
        print_json({**values, "folder": str(values["folder"])})
        return
    sizes = summary.sizes
    pairs = {name.replace("_", " "): value for name, value in sizes.items()}
    parameters = f"{summary.n_parameters:,}"
    print_pairs({**pairs, "epsilon": number(summary.epsilon), "parameters": parameters})
    sys.stdout.write("\n")
    print_rows([_row(head) for head in summary.heads])
    sys.stdout.write(
        "sym A, skew A: (A ± Aᵀ)/2. λ < 0: of the sum of moduli. Re λ > 0: of those "
        "that can be nonzero.\n"
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
    json: bool = False,
) -> None:
    """Set the flow of a model's attention beside its own hidden states.

    For example:
        meanfield models compare minilm --text 'A man is playing a guitar.'
        meanfield models compare minilm --text @alice.txt --rtol 1e-3 --out alice.png
        meanfield models compare minilm --text @alice.txt --text @bob.txt  # a table
        fortune | meanfield models compare minilm --text -

    Both start at the embedding of the text. The network goes through its layers, with
    layer norms and MLPs; the flow has its attention alone, one unit of time for each
    layer. The first table says how far apart they are after each layer and how both
    gather, the second what moves the network. Of several texts one table has a row for
    each.

    Args:
        model: a name from `models list`, or a folder with model.safetensors.
        text: a text, @FILE, or - for standard input; may be repeated.
        precision: of the flow; the network itself is computed in double.
        rtol: relative error of a step of the flow; 7e-5 in single precision if left
            out, 4e-10 in double.
        out: file to draw a picture to, `.png`, `.pdf` or `.svg`.
        json: print one JSON object on stdout, with all digits.
    """
    open_session(precision)
    from meanfield.cli.jobs import _models

    if len(text) == 1:
        _models.compare(model, text[0], rtol, out, in_json=json)
        return
    if out is not None:
        raise InvalidInputError(
            "A picture is of one text: leave out `--out`, or give one `--text`."
        )
    _models.compare_all(model, text, rtol, in_json=json)

"""`meanfield models`: real transformers."""

import dataclasses
import sys

from cyclopts import App

from meanfield.cli.terminal._output import number, print_json, print_pairs, print_rows

app = App(
    name="models",
    result_action="return_value",
    help="Real transformers as input: list them, inspect one.",
)


@app.command(name="list")
def list_(*, json: bool = False) -> None:
    """List the models known by name, and whether they are installed.

    For example:
        meanfield models list

    Args:
        json: print JSON on stdout.
    """
    from meanfield import models

    rows = [
        {"name": m.name, "installed": m.installed, "to_install": m.install}
        for m in models.listed()
    ]
    if json:
        print_json(rows)
    else:
        print_rows(rows)


@app.command
def inspect(model: str, /, *, json: bool = False) -> None:
    """Show sizes, scale and norms of a model, read from its files.

    For example:
        meanfield models inspect minilm

    Args:
        model: a name from `models list`, or a folder with model.safetensors.
        json: print JSON on stdout.
    """
    from meanfield import models

    summary = models.inspect(models.load(model))
    if json:
        values = dataclasses.asdict(summary)
        print_json({**values, "folder": str(values["folder"])})
        return
    sizes = summary.sizes
    pairs = {name.replace("_", " "): value for name, value in sizes.items()}
    parameters = f"{summary.n_parameters:,}"
    print_pairs({**pairs, "epsilon": number(summary.epsilon), "parameters": parameters})
    norms = zip(summary.score_norms, summary.value_norms, strict=True)
    sys.stdout.write("\n")
    print_rows(
        [
            {"layer": i, "‖A‖ over heads": _range(A), "‖V‖ over heads": _range(V)}
            for i, (A, V) in enumerate(norms)
        ]
    )


def _range(values: list[float] | tuple[float, ...]) -> str:
    return f"{min(values):.3g} … {max(values):.3g}"

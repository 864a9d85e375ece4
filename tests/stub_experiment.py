"""A stub of a figure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from meanfield.reproduce import Case, Experiment, Findings


def experiment(calls: list[Case], *readings: str) -> Experiment:
    """An experiment that counts how often it computes."""

    def compute(case: Case) -> Findings:
        calls.append(case)
        data = xr.Dataset({"y": ("x", np.arange(3.0))})
        return Findings({"seed": 4}, {"value": 2.5}, {"line": data})

    def draw(findings: Findings) -> Figure:
        figure = Figure(figsize=(1, 1))  # without text, which takes most of the time
        axes = figure.subplots()
        axes.plot(findings.data["line"]["y"])
        axes.set_axis_off()
        return figure

    return Experiment("nobody, Figure 0", "a claim", "{value:.1f}", compute, draw)

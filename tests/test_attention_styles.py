"""Styles of attentions in figures: one spelling, colour and marker for each."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.lines import Line2D

from experiments.attention_styles import (
    NAMES,
    STYLES,
    attention_style,
    attention_styles,
)
from experiments.mean_field_limit.clouds import BOUNDED, CLOSED_FORMS
from experiments.trained.campaigns import CAMPAIGNS
from meanfield.reproduce import Case, load

ROOT = Path(__file__).resolve().parents[1]
RECORDED = "sander2022-table1", "tay2020-table1", "tay2020-table4"


def test_no_two_attentions_share_a_colour_or_a_marker():
    assert len({style.colour for style in STYLES.values()}) == len(STYLES)
    assert len({style.marker for style in STYLES.values()}) == len(STYLES)
    assert set(NAMES.values()) <= set(STYLES)


def test_attentions_of_all_figures_have_a_style():
    labels = {name for part in CAMPAIGNS.values() for name in part.candidates}
    for name in {*labels, *BOUNDED, *CLOSED_FORMS, "esp, one slice"}:
        assert attention_style(name).colour.startswith("#")


def test_variants_of_an_attention_differ_in_their_filling():
    styles = attention_styles(["softmax", "Sinkhorn 3", "Sinkhorn 21", "esp-soft"])
    labels = [style.label for style in styles.values()]
    assert labels == ["softmax", "Sinkhorn 3", "Sinkhorn 21", "sliced"]
    three, twenty_one = styles["Sinkhorn 3"], styles["Sinkhorn 21"]
    assert three.colour == twenty_one.colour
    assert (three.fillstyle, twenty_one.fillstyle) == ("full", "none")
    with pytest.raises(KeyError):
        attention_style("perceptron")


def literal_pairs(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Pairs of a string key and a string value in the dictionaries of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    yield str(key.value), str(value.value)


def test_colours_of_attentions_are_only_in_the_table():
    for file in (ROOT / "experiments").rglob("*.py"):
        for key, value in literal_pairs(ast.parse(file.read_text(encoding="utf-8"))):
            is_colour = value.startswith("#") or value in {f"C{i}" for i in range(10)}
            is_attention = key in {*STYLES, *NAMES}
            assert not (is_colour and is_attention), f"{file.name}: {key}: {value}"


@pytest.mark.parametrize("name", RECORDED)
def test_pictures_of_networks_follow_the_table(name: str):
    """Points of networks have the style of their attention, differences have none."""
    experiment = load(name)
    scores, gains, *_ = experiment.draw(experiment.compute(Case())).axes
    handles, labels = scores.get_legend_handles_labels()
    for handle, label in zip(handles, labels, strict=True):
        assert isinstance(handle, Line2D)
        style = attention_style(label)
        assert (handle.get_color(), handle.get_marker()) == (style.colour, style.marker)
    colours = {style.colour for style in STYLES.values()}
    assert not colours & {line.get_color() for line in gains.lines}

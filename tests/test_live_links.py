"""Links of a live page round-trip exactly, and are short."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from live_node import needs_node, run_script

pytestmark = needs_node
Law = dict[str, Any]
IDENTITY = np.eye(2).tolist()
HEAD = {"Q": IDENTITY, "K": IDENTITY, "V": IDENTITY}
X = np.random.default_rng(0).normal(size=(400, 2))
INITIAL: Law = {
    "measure": "points",
    "attention": "softmax",
    "causal": False,
    "iterations": None,
    "heads": [HEAD],
    "epsilon": 1,
    "noise": 0,
    "t": 10,
    "t0": 0,
    "origin": [],
    "start": {"x": X.tolist(), "weights": None},
}


def entry(law: Law) -> None:
    law["heads"][0]["Q"][0][0] = -0.75


def add_head(law: Law) -> None:
    third = {**HEAD, "Q": [[0.1, 1 / 3], [2e-30, 1e21]], "V": (-2 * np.eye(2)).tolist()}
    law["heads"] += [copy.deepcopy(HEAD), third]


def numbers(law: Law) -> None:
    law |= {"attention": "l2", "causal": True, "epsilon": 0.1, "noise": 1 / 3, "t": 3}


def half_steps(law: Law) -> None:
    law |= {"attention": "sinkhorn", "iterations": 5}


def drag_token(law: Law) -> None:
    law["start"]["x"][7] = [0.1, -1 / 3]


def move_all(law: Law) -> None:
    law["start"]["x"] = (1.1 * X).tolist()


# Changes by the user, and the longest link allowed: a text message holds 160
# characters, and the bits of a number take 11.
CHANGES = {
    "nothing": (lambda law: None, 0),
    "an entry": (entry, 15),
    "heads": (add_head, 70),
    "numbers": (numbers, 70),
    "half-steps": (half_steps, 35),
    "a token": (drag_token, 45),
    "all tokens": (move_all, 8 + 11 * X.size),
}


def links(laws: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The links of laws, and the laws that the page reads from them."""
    return run_script("live_links.mjs", {"initial": INITIAL, "laws": laws})


@pytest.mark.parametrize("name", CHANGES)
def test_a_link_round_trips_and_is_short(name: str):
    change: Callable[[Law], None]
    change, max_length = CHANGES[name]
    law = json.loads(json.dumps(INITIAL))  # whose matrices are no longer one list
    change(law)
    is_edited = law["start"] != INITIAL["start"]
    (link,) = links([{"law": law, "isEdited": is_edited}])
    assert link["law"] == law
    assert link["isEdited"] == is_edited
    assert len(link["hash"]) <= max_length
    assert "%" not in link["hash"]  # programs that pass it on have nothing to escape


def test_a_start_too_long_for_a_link_is_left_out():
    law = copy.deepcopy(INITIAL)
    law["start"]["x"] = np.zeros((801, 2)).tolist()
    assert links([{"law": law, "isEdited": True}])[0]["hash"] == ""


# As docs/guide/pages.md has them.
TYPED_LINKS: dict[str, tuple[list[str], Any]] = {
    "epsilon=0.5": (["epsilon"], 0.5),
    "V=-1": (["heads", "V"], [[-1.0, 0.0], [0.0, -1.0]]),
    "Q=1,0.5,0,-1": (["heads", "Q"], [[1.0, 0.5], [0.0, -1.0]]),
    "attention=l2&t=3": (["t"], 3),
}


@pytest.mark.parametrize("text", TYPED_LINKS)
def test_a_link_can_be_typed(text: str):
    (key, *rest), expected = TYPED_LINKS[text]
    (link,) = links([{"typed": text}])
    read = link["law"][key]
    assert (read[0][rest[0]] if rest else read) == expected
    assert link["law"]["attention"] == ("l2" if "l2" in text else "softmax")

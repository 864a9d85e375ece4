"""Synthetic verification reports with every case of a page, and a parser."""

import math
from html.parser import HTMLParser
from typing import Any

from typing_extensions import override

Record = dict[str, Any]

CLAIM = (
    r"$\Gamma^{SM}_{N(\alpha,\Sigma)}(x) = V(\alpha + \Sigma A x)$ and "
    r"$\|\Gamma_\mu(x) - \Gamma_\nu(x)\| \le 2\,\|V\|\,\|A\|\,R^2\,W_1(\mu, \nu)$."
)


def fit(slope: float = 2.0, points: int = 4) -> Record:
    x = [0.01 / 2**i for i in range(points)]
    return {
        "kind": "fit",
        "x": x,
        "y": [3.0 * value**slope for value in x],
        "slope": slope,
        "half_width": 0.02,
        "x_name": "ε",
        "y_name": "error",
    }


def ascent(steps: int = 150, top: float = 0.98) -> Record:
    rise = [math.log(top) - 4.0 * math.exp(-6.0 * i / steps) for i in range(steps)]
    atoms = [[0.123456789, -1.0], [2.0, 1e-12]]
    return {"kind": "ascent", "history": rise, "witness": {"z": atoms, "scale": 0.5}}


def check(label: str, observed: float | None, **changes: Any) -> Record:
    """A check of an identity that holds below its tolerance."""
    record = {
        "label": label,
        "observed": observed,
        "relation": "<=",
        "bound": 0.0,
        "tolerance": 1e-11,
        "why": "rounding of 1e4 operations, $10^4 u$",
        "tightness": None,
        "evidence": None,
    }
    record |= changes
    number = observed if observed is not None else math.nan
    excess = {
        "<=": number - record["bound"],
        ">=": record["bound"] - number,
        "=": abs(number - record["bound"]),
    }[record["relation"]]
    return {
        "holds": excess <= record["tolerance"],
        "is_violated": excess >= 10 * record["tolerance"] and excess > 0,
    } | record


def trial(role: str, *checks: Record, error: str = "") -> Record:
    name = "holds" if role in ("statement", "corrected") else "is_violated"
    good = bool(checks) and all(check[name] for check in checks)
    return {"role": role, "has_passed": good, "error": error, "checks": list(checks)}


def statement(id: str, *trials: Record, **changes: Any) -> Record:  # noqa: A002
    record = {
        "id": id,
        "aliases": [],
        "paper": id.split(":")[0],
        "group": "Gaussians under softmax attention",
        "source": "Lemma 4.1, §4.1",
        "claim": CLAIM,
        "hypotheses": r"any $\Sigma \succeq 0$, $A = K^\top Q$",
        "protocol": "The closed form against softmax over Gauss–Hermite nodes.",
        "remark": "",
        "repeats": "",
        "control": "the velocity is taken half as large",
        "errata": [],
        "printed": "",
        "corrected": "",
        "counterexample": "",
        "seconds": 1.25,
        "trials": list(trials),
        "has_passed": bool(trials) and all(trial["has_passed"] for trial in trials),
    }
    return record | changes


def report(*statements: Record, **changes: Any) -> Record:
    return {
        "format": "meanfield-verification-2",
        "size": "quick",
        "seed": 0,
        "dtype": "float64",
        "has_passed": all(statement["has_passed"] for statement in statements),
        "statements": list(statements),
    } | changes


def identity(id: str = "castin2025:lemma-4.1", **changes: Any) -> Record:  # noqa: A002
    return statement(
        id,
        trial(
            "statement", *(check(f"velocity, $d = {d}$", 2.13e-13) for d in (1, 2, 3))
        ),
        trial("control", check("velocity, $d = 1$", 0.4871234)),
        aliases=[f"{id}-alias"],
        **changes,
    )


def order(id: str = "castin2025:sec-2.2-expansion", **changes: Any) -> Record:  # noqa: A002
    fields: Record = {"relation": "=", "tolerance": 0.095, "why": "95 % interval"}
    return statement(
        id,
        trial(
            "statement",
            check("order in ε", 2.0, bound=2.0, evidence=fit(2.0), **fields),
        ),
        trial(
            "control",
            check("order in ε", 0.998, bound=2.0, evidence=fit(0.998), **fields),
        ),
        **changes,
    )


def inequality(id: str = "castin2025:lemma-b.7", **changes: Any) -> Record:  # noqa: A002
    fields: Record = {"bound": 1.0, "tolerance": 1e-9, "why": "rounding of the ratio"}
    return statement(
        id,
        trial(
            "statement",
            check("largest ratio", 0.98, tightness=0.98, evidence=ascent(), **fields),
        ),
        trial(
            "control",
            check(
                "largest ratio",
                1.62,
                tightness=1.62,
                evidence=ascent(400, 1.62),
                **fields,
            ),
        ),
        **changes,
    )


def erratum(id: str = "castin2025:prop-4.15", **changes: Any) -> Record:  # noqa: A002
    return statement(
        id,
        trial("statement", check("covariance", 6e-16)),
        trial("control", check("covariance", 0.2)),
        trial("printed", check("covariance as printed", 0.3771234)),
        trial("corrected", check("covariance as corrected", 6e-16)),
        errata=["C12"],
        printed=r"$C = (\Sigma^{1/2} A \Sigma A^\top \Sigma^{1/2}"
        r" + \tfrac{\varepsilon^2}{4} I)^{1/2}$",
        corrected=r"$C = (\Sigma^{1/2} A^\top \Sigma A \Sigma^{1/2}"
        r" + \tfrac{\varepsilon^2}{4} I)^{1/2}$",
        counterexample=r"$A = \begin{pmatrix} 0.6 & -0.5 \\ 0.2 & 0.4 \end{pmatrix}$,"
        r" $\varepsilon = 1$, $V = I$",
        remark="The proof has a slip; `lemma-4.14` is right.",
        group="Sinkhorn attention",
        **changes,
    )


def failing_statement(id: str = "sander2022:thm-1", **changes: Any) -> Record:  # noqa: A002
    """A statement whose claim raised, and whose control is not finite."""
    return statement(
        id,
        trial("statement", error="ValueError: shapes <2> & $3 do not agree"),
        trial("control", check("norm", None), check("norm", math.nan)),
        group="Limits of small ε",
        **changes,
    )


def full_report() -> Record:
    return report(identity(), order(), inequality(), erratum(), failing_statement())


class Outline(HTMLParser):
    """Tags with their attributes, each with the text directly after it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    @override
    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))

    def values(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]

    def text(self, *tags: str) -> str:
        """All text, or the text directly after these tags."""
        return "".join(data for tag, data in self.texts if not tags or tag in tags)

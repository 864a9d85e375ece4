"""A random sample of the project's sentences, for a reader who does not know the code.

`python tests/prose_sample.py` prints 100 sentences, as many docstrings as comments,
messages and sentences of the guide; `--seed` draws others. The reader marks those that
must be read twice. `docs/decisions` has the samples that were read, and the verdicts.
"""

import argparse
import ast
import io
import random
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEED = 4701
SENTENCES = 100
CODE = ("meanfield", "experiments", "benchmarks")
SHORTEST = 5  # words: fewer are labels
GENERATED = {"errata.md", "speed.md", "mutants.md"}  # tables of formulas and numbers


def main() -> None:
    """Prints the sample, with the file of each sentence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    for number, (kind, file, text) in enumerate(sample(parser.parse_args().seed), 1):
        sys.stdout.write(f"{number}. [{kind}, {file}] {text}\n")


def sample(seed: int) -> list[tuple[str, str, str]]:
    """Kind, file and text of the sentences of one sample."""
    draw = random.Random(seed)
    kinds = {"docstring": docstrings, "comment": comments}
    kinds |= {"message": messages, "guide": guide_sentences}
    chosen = []
    for kind, collect in kinds.items():
        rows = sorted({row for row in collect() if len(row[1].split()) >= SHORTEST})
        n = SENTENCES // len(kinds)
        chosen += [(kind, file, text) for file, text in draw.sample(rows, n)]
    return chosen


def docstrings() -> Iterator[tuple[str, str]]:
    """Docstrings without their examples, after the name of their owner."""
    for file, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                owner = "" if isinstance(node, ast.Module) else f"`{node.name}`: "
                prose = (ast.get_docstring(node) or "").split("Examples:")[0]
                yield file, owner + " ".join(prose.split())


def comments() -> Iterator[tuple[str, str]]:
    """Comments; those that fill consecutive lines are one, others follow their code."""
    for path in files():
        blocks: dict[int, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.COMMENT:
                row, code = token.start[0], token.line[: token.start[1]].strip()
                text = token.string.lstrip("# ")
                before = f"`{code}`:" if code else ""
                if not code and not blocks.get(row - 1, "`").startswith("`"):
                    before = blocks.pop(row - 1)
                blocks[row] = f"{before} {text}".strip()
        for text in blocks.values():
            if not re.search("pyright:|type: ignore|noqa", text):
                yield str(path.relative_to(ROOT)), text


def messages() -> Iterator[tuple[str, str]]:
    """Texts of exceptions; `…` stands for values."""
    for file, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                for argument in node.exc.args:
                    yield file, text_of(argument)


def text_of(node: ast.expr) -> str:
    """A string constant, or an f-string with `…` in place of its values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else "…"
            for part in node.values
        )
    return ""


def guide_sentences() -> Iterator[tuple[str, str]]:
    """First sentences of the paragraphs of the README and the guide."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += [*(ROOT / "docs" / "guide").glob("*.md")]
    for page in pages:
        if page.name in GENERATED:
            continue
        text = re.sub(r"```.*?```|:::.*?:::", "", page.read_text(), flags=re.DOTALL)
        for paragraph in text.split("\n\n"):
            flat = " ".join(paragraph.split())
            if not flat.startswith(("|", "#", "{", "<", "!", "-")):
                first = re.split(r"(?<=[.!?]) (?=[A-Z`])", flat)[0]
                yield str(page.relative_to(ROOT)), first


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Each file of code and its syntax tree."""
    for path in files():
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def files() -> list[Path]:
    """The files of code, in order."""
    return [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]


if __name__ == "__main__":
    main()

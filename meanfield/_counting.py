"""English phrases for counts."""


def count_phrase(number: int, noun: str) -> str:
    """A number and its noun, with a regular plural: `1 token`, `2 tokens`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

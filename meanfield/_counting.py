"""Numbers with what they count, in English."""


def counted(number: int, noun: str) -> str:
    """`1 token`, `2 tokens`: a number and the noun it counts, which takes an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

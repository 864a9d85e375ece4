"""Text of a user's, as it stands: matplotlib would read `$` as mathematics."""


def verbatim(text: object) -> str:
    """The text with dollars that are drawn as dollars."""
    return str(text).replace("$", r"\$")

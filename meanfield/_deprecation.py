"""Support for renamed names: old ones still work, with a `DeprecationWarning`."""

import functools
import inspect
import sys
import warnings


def parse_table(table: str) -> dict[str, dict[str, str]]:
    """Parses a table of old and new names, which are indented below their owner."""
    words: dict[str, list[str]] = {}
    owner = ""
    for line in table.strip().splitlines():
        if line[0] != " ":
            owner = line
        else:
            words.setdefault(owner, []).extend(line.replace(",", " ").split())
    return {
        owner: dict(zip(names[::2], names[1::2], strict=True))
        for owner, names in words.items()
    }


class _OldMember:
    """Descriptor that keeps the old name of a member working, with a warning."""

    def __init__(self, old: str, new: str):
        self.old, self.new = old, new

    def __get__(self, instance: object, owner: type) -> object:
        warn_renamed(f"{owner.__name__}.{self.old}", self.new, stacklevel=3)
        return getattr(owner if instance is None else instance, self.new)


def keep_members(cls: type, names: dict[str, str]) -> None:
    """Makes the old names of members work in `cls` and its subclasses.

    The constructor of `cls` then also accepts the old names of fields as keywords.
    """
    for old, new in names.items():
        setattr(cls, old, _OldMember(old, new))
    for maker in {"__init__", "__new__"} & vars(cls).keys():
        fields = inspect.signature(getattr(cls, maker)).parameters
        if keywords := {old: new for old, new in names.items() if new in fields}:
            keep_keywords(cls, maker, keywords)

    def __init_subclass__(sub: type, **kwargs: object) -> None:
        super(cls, sub).__init_subclass__(**kwargs)
        for old, new in names.items():
            if old in vars(sub) and new not in vars(sub):
                warn_renamed(f"{sub.__name__}.{old}", new, stacklevel=4)
                setattr(sub, new, vars(sub)[old])

    setattr(cls, "__init_subclass__", classmethod(__init_subclass__))  # noqa: B010


def keep_keywords(owner: object, path: str, names: dict[str, str]) -> None:
    """Makes the function `path` of `owner` accept the old names of its keywords.

    A call that gives both an old keyword and its new name raises `TypeError`.
    """
    *owners, name = path.split(".")
    for part in owners:
        owner = getattr(owner, part)
    function = inspect.getattr_static(owner, name)
    is_static = isinstance(function, staticmethod)
    function = function.__func__ if is_static else function

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        for old in names.keys() & kwargs.keys():
            warn_renamed(f"{old}=", f"{names[old]}=", stacklevel=3)
            if names[old] in kwargs:
                raise TypeError(duplicate_note(old, names[old]))
            kwargs[names[old]] = kwargs.pop(old)
        return function(*args, **kwargs)

    setattr(owner, name, staticmethod(call) if is_static else call)
    if inspect.ismodule(owner):  # `pickle` looks for functions in their modules
        setattr(sys.modules[function.__module__], name, call)


def warn_renamed(old: str, new: str, stacklevel: int) -> None:
    """Warns the caller `stacklevel` frames up that `old` is now called `new`."""
    frame = inspect.currentframe()
    for _ in range(stacklevel - 1):
        frame = frame and frame.f_back
    # Equinox's own frames are skipped: they only look up attributes and make objects.
    while frame and frame.f_globals["__name__"].startswith("equinox"):
        frame, stacklevel = frame.f_back, stacklevel + 1
    warnings.warn(renaming_note(old, new), DeprecationWarning, stacklevel=stacklevel)


def renaming_note(old: str, new: str) -> str:
    """A sentence that says that `old` is now called `new`."""
    return f"`{old}` is called `{new}` since version 0.3."


def duplicate_note(old: str, new: str) -> str:
    """The message about an old name that is given together with its new one."""
    return f"`{old}` and `{new}` name the same value; give only `{new}`."

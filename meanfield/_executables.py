"""Executables on disk, which later processes load instead of tracing a function again.

JAX's own cache is keyed by the lowered program, so each process traces and lowers the
function first, which takes longer than its run. Here the key is what determines the
program: the function, the static arguments, shapes, versions and settings.
"""

import contextlib
import functools
import hashlib
import io
import os
import pickle
import platform
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
from jax.experimental import serialize_executable
from typing_extensions import override

_PACKAGES = ("jax", "jaxlib", "equinox", "diffrax", "lineax", "optimistix", "numpy")
# Modules whose code the key covers: by the versions above, or by the digest of sources.
_KNOWN_ROOTS = {*_PACKAGES, "meanfield", "builtins", "collections", "functools"}
# What pickling raises for local functions, and JAX for programs that call back.
_UNPICKLABLE = (
    pickle.PicklingError,
    AttributeError,
    TypeError,
    ValueError,
    NotImplementedError,
)
_LOCK = threading.Lock()  # one thread at a time pauses JAX's cache
_VARIABLES = ("XLA_FLAGS", "EQX_ON_ERROR")
# Settings of JAX with these words in their names do not change programs.
_HARMLESS = ("cache", "log_", "logging", "traceback", "dump", "color")


class CacheAccess(NamedTuple):
    """Where executables are kept, by key."""

    read: Callable[[str], bytes | None]
    write: Callable[[str, bytes], None]
    pause: Callable[[], contextlib.AbstractContextManager[None]]


class Process:
    """The cache of this process, if it has one, and the programs it has loaded."""

    cache: CacheAccess | None = None
    is_changed = False  # whether a plugin may have changed what programs compute
    start = time.time()
    programs: ClassVar[dict[Callable, dict[str, Callable[[list], Any]]]] = {}


def keep_executables(
    read: Callable[[str], bytes | None],
    write: Callable[[str, bytes], None],
    pause: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    """Makes this process load executables by `read`, and store others by `write`.

    Args:
        read: function that returns the bytes under a key; `None` if there are none.
        write: function that stores bytes under a key.
        pause: context in which no cache is read or written, not even JAX's own.
    """
    Process.cache = CacheAccess(read, write, pause)


def distrust_executables() -> None:
    """Leaves all programs to JAX from now on, as a plugin may change any of them."""
    Process.is_changed = True


def forget_executables() -> None:
    """Drops all executables that this process has loaded."""
    Process.programs.clear()


def count_executables(fn: Callable[..., Any]) -> int:
    """Number of executables of a function that this process has loaded."""
    return len(Process.programs.get(fn, ()))


def run_stored(
    fn: Callable[..., Any], arguments: Any, options: dict[str, Any]
) -> tuple[bool, Any]:
    """Runs `fn` by an executable, stored if possible: whether it ran, and the result.

    Args:
        fn: a function of this package, called by `fn(*args, **kwargs)`. Functions of
            others are not run, since the key does not cover their code.
        arguments: the pair of `args` and `kwargs`.
        options: compiler options.
    """
    cache, is_cpu = Process.cache, jax.default_backend() == "cpu"
    is_plain = is_cpu and jax.device_count() == 1 and not Process.is_changed
    if cache is None or not is_plain:
        return False, None
    leaves, form = _take_apart(arguments)
    try:
        key = _key(fn, leaves, form, options)
    except _UNPICKLABLE:  # a local function, say
        return False, None
    programs = Process.programs.setdefault(fn, {})
    if key not in programs:
        program = _load(cache.read(key))
        programs[key] = program or _compile(cache, key, (fn, leaves, form), options)
    return True, programs[key](leaves)


class _Form(NamedTuple):
    """A tree without its arrays."""

    indices: Any  # the tree, with the number of each array in its place
    rest: Any  # the tree, with `None` in place of arrays

    def fill(self, leaves: list) -> Any:
        """The tree with its arrays."""
        return eqx.combine(jax.tree.map(leaves.__getitem__, self.indices), self.rest)


def _take_apart(tree: Any) -> tuple[list, _Form]:
    """Splits a tree into its arrays and everything else."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    return leaves, _Form(jax.tree.unflatten(structure, range(len(leaves))), rest)


def _compile(
    cache: CacheAccess,
    key: str,
    call: tuple[Callable[..., Any], list, _Form],
    options: dict[str, Any],
) -> Callable[[list], Any]:
    """Compiles a program, and stores it if it calls nothing outside of itself."""
    fn, leaves, form = call
    forms: list[_Form] = []

    def flat(leaves: list) -> list:
        args, kwargs = form.fill(leaves)
        results, result_form = _take_apart(fn(*args, **kwargs))
        forms.append(result_form)
        return results

    program = jax.jit(flat, compiler_options=options).lower(leaves)
    # JAX prepares libraries such as LAPACK while it lowers a program that calls them.
    # Without that, a loaded program would end the process with a segmentation fault.
    if "custom_call" in program.as_text():
        executable = program.compile()  # by JAX's own cache
    else:
        with _LOCK, cache.pause():  # what JAX's cache returns cannot be stored again
            executable = program.compile()
        with contextlib.suppress(*_UNPICKLABLE):
            code = serialize_executable.serialize(executable)[0]
            cache.write(key, pickle.dumps((code, len(leaves), forms[0])))
    return lambda leaves: forms[0].fill(executable(leaves))


def _load(entry: bytes | None) -> Callable[[list], Any] | None:
    """The program of an entry; `None` if it is missing or cannot be loaded."""
    if entry is None:
        return None
    try:
        code, n_leaves, form = pickle.loads(entry)
        arguments = jax.tree.structure((([0] * n_leaves,), {}))
        results = jax.tree.structure(jax.tree.leaves(form.indices))
        executable = serialize_executable.deserialize_and_load(code, arguments, results)
    except Exception:  # noqa: BLE001 - a damaged entry is compiled again
        return None
    return lambda leaves: form.fill(executable(leaves))


class _KnownPickler(pickle.Pickler):
    """A pickler that rejects objects whose code the key does not cover."""

    @override
    def reducer_override(self, obj: Any) -> Any:
        module = getattr(obj, "__module__", None)
        if isinstance(module, str) and module.partition(".")[0] not in _KNOWN_ROOTS:
            raise pickle.PicklingError(f"`{module}` is not covered by the key.")
        return NotImplemented


def _key(
    fn: Callable[..., Any], leaves: list, static: Any, options: dict[str, Any]
) -> str:
    """Digest of everything that determines a program."""
    name = fn.__module__, fn.__qualname__
    if not fn.__module__.startswith("meanfield.") or "<" in fn.__qualname__:
        raise pickle.PicklingError(f"The key does not cover the code of `{name}`.")
    avals = [repr(jax.typeof(leaf)) for leaf in leaves]
    file = io.BytesIO()
    settings = [
        (key, repr(value))
        for key, value in sorted(jax.config.values.items())
        if not any(word in key for word in _HARMLESS)
    ]
    parts = name, avals, sorted(options.items()), settings, static
    _KnownPickler(file).dump((*parts, [os.environ.get(key) for key in _VARIABLES]))
    return hashlib.sha256(installation_digest() + file.getvalue()).hexdigest()


@functools.cache
def installation_digest() -> bytes:
    """Digest of this package's code, the versions of others, and the processor.

    Raises:
        PicklingError: if a file has changed since the process started, which may run
            the older code.
    """
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if path.stat().st_mtime > Process.start:
            raise pickle.PicklingError(f"`{path}` has changed.")
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    processor = [platform.python_version(), platform.machine(), _instructions()]
    digest.update(repr([*map(version, _PACKAGES), *processor]).encode())
    return digest.digest()


def _instructions() -> str:
    """The instruction sets of the processor, where Linux lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Feat"))), "")

"""Names in files of version 0.2 that 0.3 renamed; readers translate them silently.

Only readers use this table. Whatever is written has the new names, so a continued store
of version 0.2 has them from its next commit on. The table stays as long as files of
version 0.2 are read.
"""

from collections.abc import Mapping
from typing import Any

# Pairs of an old and a new key, below the kind of JSON value that has them.
_NAMES = """
comparison
    allowed tolerance, covariance_allowed covariance_tolerance, distance_how
    distance_method, doubt error_estimate, left_out omitted, mean_allowed
    mean_tolerance, parting separation, what moment
inputs
    moves flow
outcome
    accepted n_accepted, doubt error_estimate, due predicted_blow_up, lapse
    convergence_failure, missed sum_error, missed_at_most is_sum_error_bound, rejected
    n_rejected
sweep
    doubt error_estimate
verification
    passed has_passed, violated is_violated
"""
# Keys are renamed down to this depth. Deeper keys are names of files, or names that
# users chose.
_DEPTHS = {"comparison": 4, "inputs": 1, "outcome": 2, "sweep": 1, "verification": 7}
_USER_KEYS = ("evidence", "spec")


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


STORED = parse_table(_NAMES)


def rename_keys(kind: str, value: Any) -> Any:
    """Renames the keys of a JSON value read from a file to those of this version.

    Args:
        kind: the kind of value, such as `outcome` for a list of outcomes.
        value: the value; one of an unexpected type is returned as it is.

    Examples:
        >>> from meanfield._stored_names import rename_keys
        >>> rename_keys("outcome", [{"due": None, "time": 1.0}])
        [{'predicted_blow_up': None, 'time': 1.0}]
    """
    return _rename(value, STORED[kind], _DEPTHS[kind])


def _rename(value: Any, names: Mapping[str, str], depth: int) -> Any:
    if depth and isinstance(value, list):
        return [_rename(part, names, depth - 1) for part in value]
    if not depth or not isinstance(value, dict):
        return value
    return {
        names.get(key, key): _rename(part, names, 0 if key in _USER_KEYS else depth - 1)
        for key, part in value.items()
    }

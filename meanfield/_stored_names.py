"""Names in files of version 0.2 that 0.3 renamed; readers translate them silently.

Only readers use this table, and what is written has the new names: an old store that is
continued has them from its next commit on. The table stays as long as files of version
0.2 are read.
"""

from typing import Any

from meanfield._renamed import parse_table

# A kind of JSON value, then each old name before the new one.
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
_USER_KEYS = ("evidence", "spec")  # what lies below these is not ours to rename

STORED = parse_table(_NAMES)


def rename_keys(kind: str, value: Any, *, depth: int) -> Any:
    """A JSON value read from a file, with the names of today as keys.

    Args:
        kind: the table of names, such as `outcome`.
        value: the value; one of an unexpected type is returned as it is.
        depth: the number of nested lists and objects whose keys are renamed.

    Examples:
        >>> from meanfield._stored_names import rename_keys
        >>> rename_keys("outcome", [{"due": None, "time": 1.0}], depth=2)
        [{'predicted_blow_up': None, 'time': 1.0}]
    """
    if depth == 0:
        return value
    if isinstance(value, list):
        return [rename_keys(kind, part, depth=depth - 1) for part in value]
    if not isinstance(value, dict):
        return value
    names = STORED[kind]
    return {
        names.get(key, key): part
        if key in _USER_KEYS
        else rename_keys(kind, part, depth=depth - 1)
        for key, part in value.items()
    }

"""The format of a store as it is recorded: a JSON object with a number, and features.

    {"format": n, ...}                            n as long as no feature was used
    {"features": [...], "format": n + 1, ...}     from the first feature on; the names ascend, and
                                                  none is the same as no list

Features are those of `tms.core.store_features`. Keys ascend. What stands in the place of "..." is
of each kind of store. A store with a feature, or with a key, that this version does not know is
refused: so versions to come may add both. DO NOT CHANGE: stored.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tms.core.errors import StoreFormatUnknown
from tms.core.store_features import FEATURES

_NUMBER = "format"
_FEATURES = "features"


def features_of(recorded: Mapping[str, Any], keys: Collection[str], plain: int) -> frozenset[str]:
    """Return the features of a recorded format whose number is at most `plain` + 1.

    `keys` are those of that kind of store, `plain` is its number without features. Raises
    `StoreFormatUnknown` with what is not known, and with what to do; KeyError, TypeError where
    this is no such record.
    """
    has_features = recorded[_NUMBER] > plain
    unknown = recorded.keys() - {*keys, _NUMBER, *([_FEATURES] if has_features else [])}
    features = frozenset(recorded.get(_FEATURES, ()))
    unknown |= features - set(FEATURES)
    if unknown:
        raise StoreFormatUnknown(
            unknown=sorted(unknown),
            reason="a later version of TMS has used the store in a way that this one does not "
            "know: use that version",
        )
    return features


def record(features: Collection[str], plain: int, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be recorded of a store with `others` as its own values, and features."""
    if not features:
        return dict(sorted({_NUMBER: plain, **others}.items()))
    told = {_FEATURES: sorted(features), _NUMBER: plain + 1, **others}
    return dict(sorted(told.items()))

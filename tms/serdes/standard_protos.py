"""The files that a Protobuf schema may import without a reference, because clients have them.

They are Protobuf's own, Google's common types, or Confluent's.
"""

from collections.abc import Mapping

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.type import (
    calendar_period_pb2,
    color_pb2,
    date_pb2,
    datetime_pb2,
    dayofweek_pb2,
    decimal_pb2,
    expr_pb2,
    fraction_pb2,
    interval_pb2,
    latlng_pb2,
    localized_text_pb2,
    money_pb2,
    month_pb2,
    phone_number_pb2,
    postal_address_pb2,
    quaternion_pb2,
    timeofday_pb2,
)

from tms.serdes.confluent_protos import CONFLUENT_FILES

_MODULES = (
    *(any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2),
    *(struct_pb2, timestamp_pb2, wrappers_pb2, type_pb2, api_pb2),
    *(calendar_period_pb2, color_pb2, date_pb2, datetime_pb2, dayofweek_pb2, decimal_pb2),
    *(expr_pb2, fraction_pb2, interval_pb2, latlng_pb2, localized_text_pb2, money_pb2, month_pb2),
    *(phone_number_pb2, postal_address_pb2, quaternion_pb2, timeofday_pb2),
)
STANDARD_FILES: Mapping[str, bytes] = {
    **{module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in _MODULES},
    **{file.name: file.SerializeToString() for file in CONFLUENT_FILES},
}
"""Serialized, by name, each after those that it imports."""

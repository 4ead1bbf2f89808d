"""The media types of REST's bodies."""

AVRO_TYPE = "avro/binary"
JSON_TYPE = "application/json"
BASE64_TYPE = f"{JSON_TYPE}; encoding=base64"
"""JSON whose bytes are base64 strings."""
ARROW_TYPE = "application/vnd.apache.arrow.stream"

"""The refusals of the registry, with the codes and words of Confluent's interface.

A code of five digits begins with the HTTP status; one of three is the status. If that server has a
bug and answers 500 to a wrong request, the documented code is used.
"""

from tms.core.text.credentials import without_credentials

MALFORMED = 400
INCOMPATIBLE = 409
INVALID_BODY = 422
SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_SOFT_DELETED = 40404
SUBJECT_NOT_SOFT_DELETED = 40405
VERSION_SOFT_DELETED = 40406
VERSION_NOT_SOFT_DELETED = 40407
NO_SUBJECT_CONFIG = 40408
NO_SUBJECT_MODE = 40409
INVALID_SCHEMA = 42201
INVALID_VERSION = 42202
INVALID_LEVEL = 42203
INVALID_MODE = 42204
NOT_PERMITTED = 42205
REFERENCED = 42206
INVALID_SUBJECT = 42208
TOO_LARGE = 42209
INVALID_RULES = 42210
CONTEXT_NOT_EMPTY = 42211
STORE_FAILED = 50001
TIMED_OUT = 50002
FORWARDING_FAILED = 50003
NO_MASTER = 50004

TEXTS = {
    INCOMPATIBLE: "Schema being registered is incompatible with an earlier schema for subject "
    '"{subject}", details: [{details}]',
    MALFORMED: "{reason}",
    INVALID_BODY: "{reason}",
    SUBJECT_NOT_FOUND: "Subject '{subject}' not found.",
    VERSION_NOT_FOUND: "Version {version} not found.",
    SCHEMA_NOT_FOUND: "Schema{which} not found",
    SUBJECT_SOFT_DELETED: "Subject '{subject}' was soft deleted."
    "Set permanent=true to delete permanently",
    SUBJECT_NOT_SOFT_DELETED: "Subject '{subject}' was not deleted first before being permanently "
    "deleted",
    VERSION_SOFT_DELETED: "Subject '{subject}' Version {version} was soft deleted."
    "Set permanent=true to delete permanently",
    VERSION_NOT_SOFT_DELETED: "Subject '{subject}' Version {version} was not deleted first before "
    "being permanently deleted",
    NO_SUBJECT_CONFIG: "Subject '{subject}' does not have subject-level compatibility configured",
    NO_SUBJECT_MODE: "Subject '{subject}' does not have subject-level mode configured",
    INVALID_SCHEMA: "{reason}",
    INVALID_VERSION: "The specified version '{version}' is not a valid version id. Allowed values "
    'are between [1, 2^31-1] and the string "latest"',
    INVALID_LEVEL: "Invalid compatibility level. Valid values are none, backward, forward, full, "
    "backward_transitive, forward_transitive, and full_transitive",
    INVALID_MODE: "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT",
    NOT_PERMITTED: "{reason}",
    REFERENCED: "One or more references exist to the schema {{magic=1,keytype=SCHEMA,"
    "subject={subject},version={version}}}.",
    INVALID_SUBJECT: "The specified subject '{subject}' is not a valid subject.",
    TOO_LARGE: "{reason}",
    INVALID_RULES: "Invalid rule set: {reason}",
    CONTEXT_NOT_EMPTY: "The context '{context}' is not empty",
    STORE_FAILED: "The log of schemas could not be read or written: {reason}",
    FORWARDING_FAILED: "The master did not answer, so it may be done or not: {reason}",
    NO_MASTER: "It is not known who is master: {reason}",
    TIMED_OUT: "The log of schemas was not reached in time: {reason}",
}
"""By code. A missing space is Confluent's, too."""

_STATUS_DIGITS = 1000
_CODES_OF_A_STATUS = 100


class RegistryError(Exception):
    """Raised when the registry refuses; `code` and the text are the answer."""

    def __init__(self, code: int, **detail: object) -> None:
        """Use the text of a code in `TEXTS`, with `detail` filled in."""
        super().__init__(without_credentials(TEXTS[code].format(**detail)))
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return status_of(self.code)


def status_of(code: int) -> int:
    """Return the HTTP status of a code."""
    return code if code < _STATUS_DIGITS else code // _CODES_OF_A_STATUS

"""Every error of TMS: who is at fault, a stable code, an HTTP status.

    TmsError
    ├── RequestError        the caller must change something; nothing was done
    │   └── Conflict        409: the request is well formed, the state forbids it
    ├── Unavailable         503: not done; the same call may succeed later
    ├── OutcomeUnknown      504: it may or may not have been done
    ├── StoreError          an operator must act: the store cannot be opened
    └── InternalError       500: our fault

An error is one class in `requests`, `conflicts` or `failures`, with its codes, their statuses and
texts. They define `catalogue.CATALOGUE`, and the errors of REST, OpenAPI, client and command line.
The text of an error is static; what varies is in `detail`, so that errors can be counted and
grouped by code.
"""

from tms.core.errors.catalogue import *
from tms.core.errors.conflicts import *
from tms.core.errors.failures import *
from tms.core.errors.requests import *

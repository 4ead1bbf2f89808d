"""The proxy by which a server is reached, as the environment names it.

HTTP_PROXY and HTTPS_PROXY apply to one scheme, ALL_PROXY to both; names in lower case take
precedence. NO_PROXY excludes hosts, each with or without a port: a name with its subdomains,
`.NAME` for the subdomains only, an address, or `*` for all. The caller decides whether a server may
be reached by a proxy at all.
"""

import os

from tms.outgoing.url import InvalidUrl, Url, parse_url


def proxy_of(url: Url) -> Url | None:
    """Return the URL of the proxy for a URL; None if there is none. Raises `InvalidUrl`."""
    named = _variable(f"{url.scheme}_proxy") or _variable("all_proxy")
    if not named or any(_excludes(each.strip(), url) for each in _variable("no_proxy").split(",")):
        return None
    try:
        return parse_url(named if "://" in named else f"http://{named}")
    except InvalidUrl as error:
        raise InvalidUrl(f"cannot use the proxy that the environment names: {error}") from None


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None and not (name == "http_proxy" and "REQUEST_METHOD" in os.environ):
        value = os.environ.get(name.upper())  # in CGI, that is a header from the caller
    return (value or "").strip()


def _excludes(entry: str, url: Url) -> bool:
    """Whether an entry of NO_PROXY covers a URL."""
    entry = entry.lower().rpartition("://")[2]
    if entry in ("", "*"):
        return entry == "*"
    if entry.count(":") == 1 or entry.startswith("["):
        entry, colon, port = entry.rpartition(":") if not entry.endswith("]") else (entry, "", "")
        if colon and port != str(url.port):
            return False
    entry = entry.strip("[]")
    below = entry if entry.startswith(".") else f".{entry}"
    return url.host == entry or (url.has_name and url.host.endswith(below))

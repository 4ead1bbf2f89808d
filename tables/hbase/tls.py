"""TLS to a Thrift gateway: happybase's connection on a socket of thriftpy2 that encrypts."""

import ssl
from typing import Any

import happybase
from Hbase_thrift import Hbase
from thriftpy2.thrift import TClient
from thriftpy2.transport import TSSLSocket


def context(ca: str | None, certificate: str | None) -> ssl.SSLContext:
    """Return the TLS settings of connections: whom to trust, and our own certificate.

    `ca` is a file of certificates, by default the machine's; `certificate` one with ours and its
    key. Raises `OSError` if a file cannot be read or is not such a file (`ssl.SSLError`).
    """
    made = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        made.load_cert_chain(certificate)
    return made


class TlsConnection(happybase.Connection):  # type: ignore[misc]
    """A connection that is encrypted, to a gateway whose certificate is that of its host."""

    def __init__(self, tls: ssl.SSLContext, **options: Any) -> None:
        """Take the options of `happybase.Connection`; connect on `open`."""
        self._tls = tls
        super().__init__(**options)

    def _refresh_thrift_client(self) -> None:
        socket = TSSLSocket(
            self.host, self.port, socket_timeout=self.timeout, ssl_context=self._tls
        )
        self.transport = self._transport_class(socket)
        protocol = self._protocol_class(self.transport, decode_response=False)
        self.client = TClient(Hbase, protocol)

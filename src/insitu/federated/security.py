"""Who may listen and who may take part: the server's certificate, and the keys of its devices.

The certificate says to devices who the server is, and encrypts everything on the way. A device's key says to the server
who the device is: an ECDSA key as `ssh-keygen -t ecdsa -b 384` makes it. Both are Flower's own; nothing here encrypts,
and Flower's flags for them are in processes.py.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from insitu.errors import DataError
from insitu.terminal.wording import either, option


@dataclass(frozen=True)
class Security:
    """Certificates of a superlink and keys of its nodes; without them, nothing leaves this machine."""

    certificate: Path | None = None  # of the server, with its key and the authority that signed it
    key: Path | None = None
    authority: Path | None = None
    nodes: tuple[Path, ...] = ()  # public keys of the devices that may take part; none: everybody
    node_key: Path | None = None  # a device's own, secret one

    def checked(self) -> Security:
        """The same, if it is complete and the files exist."""
        server = (self.certificate, self.key)
        if any(server) and not (all(server) and self.authority):
            raise DataError(f"a certificate needs {whole_protection()}", where="serve")
        if self.nodes and self.certificate is None:
            where = either(shell="--devices", python="nodes")
            raise DataError("keys of devices mean nothing without a certificate", where=where, hint=whole_protection())
        if self.node_key and self.authority is None:
            where, hint = either(shell="--key", python="node_key"), option(authority="FILE")
            raise DataError("a device shows its key only to a server that it knows", where=where, hint=hint)
        for path in (*server, self.authority, *self.nodes, self.node_key):
            if path is not None and not path.is_file():
                raise DataError("there is no such file", where=str(path))
        return self


def check_server(address: str, authority: Path | None, seconds: float = 10) -> None:
    """Refuse a server whose certificate this authority did not sign for its name. One that is not there yet is not
    refused: a supernode waits for it."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit() and int(port) < 1 << 16):
        raise DataError("is not an address like HOST:PORT", where=address, hint="what `insitu fleet serve` printed")
    if authority is None:
        return
    try:
        context = ssl.create_default_context(cafile=str(authority))
        with (
            socket.create_connection((host, int(port)), seconds) as line,
            context.wrap_socket(line, server_hostname=host),
        ):
            pass
    except ssl.SSLError as e:
        why = getattr(e, "verify_message", "") or e.reason or e
        hint = f"the certificate that signed the server's: {option(authority='FILE')}"
        raise DataError(f"the server could not show that it is the right one: {why}", where=address, hint=hint) from e
    except OSError:
        pass


def whole_protection() -> str:
    """What a server needs to listen for other machines."""
    return either(shell="--certificate, --key and --authority", python="certificate=, key= and authority=")

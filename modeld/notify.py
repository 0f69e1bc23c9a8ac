"""Telling the service manager: the sd_notify protocol, spoken directly.

A datagram of `KEY=value` lines goes to the Unix socket that NOTIFY_SOCKET names; a leading `@`
means the abstract namespace. See sd_notify(3).
"""

import logging
import os
import socket
from collections.abc import Mapping

_LOG = logging.getLogger(__name__)


# A watchdog that is not armed yet: longer than any wait for cameras, short enough for 64 bits.
_DISARMED_USEC = 30 * 24 * 3600 * 1_000_000


class Notifier:
    """Sends notifications to `address`; with None nothing is sent (not run as a service).

    `watchdog_usec` is the period that the service manager wants the watchdog fed in, 0 for none.
    """

    def __init__(self, address: str | None, watchdog_usec: int = 0) -> None:
        self._watchdog_usec = watchdog_usec
        self._address: str | bytes | None = address
        if address is not None and address.startswith("@"):
            self._address = b"\0" + os.fsencode(address[1:])
        self._socket: socket.socket | None = None
        self._warned = False
        if address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            # The loop must not wait for a busy service manager; watchdog pings come again.
            self._socket.setblocking(False)

    def send(self, **assignments: str | int) -> None:
        """Send one datagram of assignments; a failure is logged once and costs nothing else."""
        if self._socket is None or self._address is None:
            return
        text = "\n".join(f"{key}={value}" for key, value in assignments.items())
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:
            if not self._warned:
                _LOG.warning("service manager not reached (%s); notifications are lost", error)
            self._warned = True

    def ready(self, status: str) -> None:
        """Start-up is complete."""
        self.send(READY=1, STATUS=status)

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self.send(STATUS=text)

    def disarm_watchdog(self) -> None:
        """Wait without being restarted: there is no work yet."""
        if self._watchdog_usec:
            self.send(WATCHDOG_USEC=_DISARMED_USEC)

    def arm_watchdog(self) -> None:
        """Work has begun; from now on silence means a restart."""
        if self._watchdog_usec:
            self.send(WATCHDOG_USEC=self._watchdog_usec)

    def watchdog(self) -> None:
        """Prove that work gets done."""
        self.send(WATCHDOG=1)

    def extend_start(self, seconds: float) -> None:
        """Ask for this much longer, from now, before start-up counts as hung."""
        self.send(EXTEND_TIMEOUT_USEC=int(seconds * 1e6))

    def stopping(self) -> None:
        """Shutdown has begun."""
        self.send(STOPPING=1)

    def close(self) -> None:
        """Release the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def notifier_of(environment: Mapping[str, str]) -> Notifier:
    """The notifier that systemd's environment describes."""
    period = environment.get("WATCHDOG_USEC", "")
    return Notifier(
        environment.get("NOTIFY_SOCKET") or None, int(period) if period.isdecimal() else 0
    )

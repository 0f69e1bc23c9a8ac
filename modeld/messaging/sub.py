"""Receiving messages, and knowing whether they can be trusted: SubMaster."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from modeld.clock import Clock
from modeld.messaging.events import decode_event, empty_member, find_service
from modeld.messaging.frequency import FrequencyTracker
from modeld.messaging.transport import Transport
from modeld.messaging.validate import MessageError

_log = logging.getLogger(__name__)

# A service is dead after this many periods without a message.
_DEAD_AFTER_PERIODS = 10
# Slower services send too rarely for an average.
_LOWEST_TRACKED_HZ = 0.99


class SubMaster:
    """The newest message of each service, and how each service fares.

    Dictionaries by the names given: `updated` (in the last `update`), `seen` (ever), `valid` (the
    sender vouches), `alive` (within ten periods), `freq_ok` (average rate in band), `recv_time`
    and `log_mono_time` (ns, 0 before the first). Services without a frequency are always alive,
    valid and in rhythm. Thresholds are openpilot's.

    A message that is not sound is counted in `rejected` by (service, reason), the last one is
    described in `last_rejection`, and the message before it stays; `update` never raises for it.
    """

    def __init__(
        self,
        services: Iterable[str],
        transport: Transport,
        clock: Clock,
        *,
        poll: str | None = None,
        update_hz: float | None = None,
        ignore_alive: Collection[str] = (),
        ignore_frequency: Collection[str] = (),
        ignore_valid: Collection[str] = (),
    ) -> None:
        """Subscribe. `update` is expected `update_hz` times a second; unless given, at the rate of
        the service that is waited for, `poll`, or else of the fastest one.
        """
        self._services = {name: find_service(name) for name in services}
        self._clock = clock
        self._inbox = transport.inbox(self._services)
        self._ignored = {"alive": ignore_alive, "freq_ok": ignore_frequency, "valid": ignore_valid}
        paces = self._services if poll is None else (poll,)
        pace = update_hz or max((self._services[n].frequency for n in paces), default=0.0) or 1.0
        self._trackers = {
            name: FrequencyTracker(service.frequency, pace, polled=name == poll)
            for name, service in self._services.items()
            if service.frequency > _LOWEST_TRACKED_HZ
            and name not in ignore_frequency
            and name not in ignore_alive
        }
        self._data = {name: empty_member(service) for name, service in self._services.items()}
        rhythmless = {name: service.frequency == 0 for name, service in self._services.items()}
        self.updated = dict.fromkeys(self._services, False)
        self.seen = dict.fromkeys(self._services, False)
        self.valid = dict(rhythmless)
        self.alive = dict(rhythmless)
        self.freq_ok = {name: name not in self._trackers for name in self._services}
        self.recv_time = dict.fromkeys(self._services, 0)
        self.log_mono_time = dict.fromkeys(self._services, 0)
        self.rejected: Counter[tuple[str, str]] = Counter()
        self.last_rejection = ""

    def __getitem__(self, service: str) -> Any:
        """The newest content of `service`; all defaults before the first."""
        return self._data[service]

    def update(self, timeout_s: float = 0.0) -> None:
        """Take in what has arrived, waiting at most `timeout_s` for the first of it."""
        arrived = self._inbox.wait(timeout_s)
        now_ns = self._clock.monotonic_ns()
        for name in self._services:
            data = self._inbox.receive(name) if name in arrived else None
            self.updated[name] = data is not None and self._accept(name, data, now_ns)
        self._judge(now_ns)

    def all_alive(self, services: Collection[str] | None = None) -> bool:
        """Whether all (of these) services are alive, save those ignored."""
        return self._all(self.alive, "alive", services)

    def all_freq_ok(self, services: Collection[str] | None = None) -> bool:
        """Whether all (of these) services keep their rhythm, save those ignored."""
        return self._all(self.freq_ok, "freq_ok", services)

    def all_valid(self, services: Collection[str] | None = None) -> bool:
        """Whether all (of these) services vouch for their content, save those ignored."""
        return self._all(self.valid, "valid", services)

    def all_checks(self, services: Collection[str] | None = None) -> bool:
        """Alive, in rhythm and valid."""
        return self.all_alive(services) and self.all_freq_ok(services) and self.all_valid(services)

    def _accept(self, name: str, data: bytes, now_ns: int) -> bool:
        service = self._services[name]
        try:
            event = decode_event(data)
            member = event.which()
            if member not in (service.name, service.name + "DEPRECATED"):
                raise MessageError("wrong member", f"message carries {member}")
        except MessageError as error:
            self._reject(name, error)
            return False
        self._data[name] = getattr(event, member)
        self.seen[name] = True
        self.recv_time[name] = now_ns
        self.log_mono_time[name] = event.logMonoTime
        if service.frequency > 0:
            self.valid[name] = event.valid
        if name in self._trackers:
            self._trackers[name].record(now_ns)
        return True

    def _reject(self, name: str, error: MessageError) -> None:
        self.rejected[name, error.reason] += 1
        self.last_rejection = f"{name}: {error}"
        if self.rejected[name, error.reason] == 1:
            # Once each: a broken sender would fill the journal at its own rate.
            _log.warning("rejected a message of %s", self.last_rejection)

    def _judge(self, now_ns: int) -> None:
        for name, service in self._services.items():
            if service.frequency > 0:
                age_ns = now_ns - self.recv_time[name]
                self.alive[name] = self.seen[name] and (
                    age_ns * service.frequency < _DEAD_AFTER_PERIODS * 1e9
                )
        for name, tracker in self._trackers.items():
            self.freq_ok[name] = tracker.ok

    def _all(self, states: dict[str, bool], what: str, services: Collection[str] | None) -> bool:
        names = self._services if services is None else services
        return all(states[name] for name in names if name not in self._ignored[what])

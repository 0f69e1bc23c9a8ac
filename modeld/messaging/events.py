"""Making and reading single messages."""

import difflib
from typing import Any

import capnp

import msgschema
from modeld.clock import Clock
from modeld.errors import ModeldError
from modeld.messaging.validate import check_message
from msgschema.services import BY_NAME, Service

# Readers of a long-lived message spend its limit with every access; sound messages (see
# `check_message`) need no limit, so it is set where it is never reached.
TRAVERSAL_LIMIT_WORDS = 1 << 62

_TEXT_MEMBERS = ("logMessage", "errorLogMessage")


def find_service(name: str) -> Service:
    """The service of that name, old or new; ModeldError with the nearest name otherwise."""
    service = BY_NAME.get(name)
    if service is None:
        near = difflib.get_close_matches(name, BY_NAME, n=1)
        hint = f"did you mean {near[0]}?" if near else "see msgschema/services.py"
        raise ModeldError(f"service {name!r} is not known; {hint}")
    return service


def new_event(service: str, clock: Clock, *, valid: bool = False) -> Any:
    """A builder of an Event for `service`, stamped with the present time, its member empty.

    Not valid unless said, as with openpilot's `new_message`. Fill `builder.<member>`, where the
    member is the service's 2026 name, then hand the builder to `PubMaster.send` once.
    """
    event = _init(find_service(service))
    event.logMonoTime = clock.monotonic_ns()
    event.valid = valid
    return event


def empty_member(service: Service) -> Any:
    """A reader of the service's member with every field at its default."""
    return getattr(_init(service).as_reader(), service.name)


def decode_event(data: bytes) -> Any:
    """A reader of the one Event in `data`, which it keeps alive.

    Raises MessageError when `data` is not one sound message; reading fields of the result cannot
    fail, save for the name of an enum (see `enum_name`).
    """
    check_message(data)
    return next(iter(msgschema.load().Event.read_multiple_bytes(data, TRAVERSAL_LIMIT_WORDS)))


def member_name(event: Any) -> str:
    """The member that an Event reader carries, or `unknown` where the sender's schema is newer."""
    try:
        return str(event.which())
    except capnp.KjException:
        return "unknown"


def enum_name(value: Any) -> str:
    """The name of an enum's value, or `unknown(<number>)` where the sender's schema is newer."""
    try:
        return str(value)
    except RuntimeError:  # all that pycapnp says
        return f"unknown({value.raw})"


def _init(service: Service) -> Any:
    event = msgschema.load().Event.new_message()
    if service.name in _TEXT_MEMBERS:
        setattr(event, service.name, "")
    else:
        event.init(service.name)
    return event

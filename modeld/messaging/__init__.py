"""Messages in and out: one Event a message, over ZeroMQ at openpilot's ports."""

from modeld.messaging.events import decode_event, enum_name, member_name, new_event
from modeld.messaging.pub import PubMaster
from modeld.messaging.sub import SubMaster
from modeld.messaging.transport import Inbox, MergedTransport, Publisher, Transport
from modeld.messaging.validate import MessageError
from modeld.messaging.zmq_transport import ZmqTransport

__all__ = [
    "Inbox",
    "MergedTransport",
    "MessageError",
    "PubMaster",
    "Publisher",
    "SubMaster",
    "Transport",
    "ZmqTransport",
    "decode_event",
    "enum_name",
    "member_name",
    "new_event",
]

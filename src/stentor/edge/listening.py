"""Sockets that listen: when nobody who connects is read, and how one stops without losing anybody."""

from __future__ import annotations

import ctypes
import socket
import struct
import sys

MAX_TIMEOUT_MS = 2**31 - 1
"""The longest that the system's option holds: 24 days."""

SO_ATTACH_FILTER = 26
"""Source: Linux, asm-generic/socket.h; Python has no name for it."""

TCP_FLAGS_BYTE, SYN = 13, 0x02
"""Where TCP's header has its flags, and the one that opens a connection. Source: RFC 9293, 3.1."""

DROP_SYN = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, TCP_FLAGS_BYTE),  # load a byte
        (0x45, 0, 1, SYN),  # is the flag set?
        (0x06, 0, 0, 0),  # yes: keep nothing of the packet
        (0x06, 0, 0, 0xFFFFFFFF),  # no: keep all
    )
)
"""A program of the kernel's packet filter. Source: Linux, networking/filter.rst."""


def reset_unread(listening: socket.socket, timeout_s: float) -> None:
    """Let the kernel reset connections whose peer has not taken in what was sent for so long.

    RFC 5482; Linux applies it to a closed window as well. Connections inherit the option. Where the system
    knows none, such a connection stays until the client goes.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT") and listening.family in (socket.AF_INET, socket.AF_INET6):
        timeout_ms = max(1, round(min(timeout_s * 1000, MAX_TIMEOUT_MS)))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


def refuse_connections(listening: socket.socket) -> None:
    """Let nobody connect any more; those who are connected already can still be accepted.

    A listening socket that is closed resets connections that its kernel has made and nobody has accepted. So
    before it is closed the packets that open connections are dropped: the client's system sends them again a
    second later, when the port is closed, or its next owner's. Elsewhere than on Linux nothing is done.
    """
    if sys.platform != "linux" or listening.family not in (socket.AF_INET, socket.AF_INET6):
        return
    program = ctypes.create_string_buffer(DROP_SYN)
    filter = struct.pack("HP", len(DROP_SYN) // struct.calcsize("HBBI"), ctypes.addressof(program))
    listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter)

"""VisionIPC: camera frames through memory shared with openpilot's camerad, client and server.

A camera server answers on a Unix socket with the file descriptors of its picture buffers, and
announces each new picture with a 48-byte packet in a shared ring (msgq). Both ends here speak
those bytes in pure Python; only libatomic is borrowed, for real atomics.

Layers, lowest first: `atomics`, `wakeup`, `ring`, `slots`, `publisher` and `subscriber` (the
ring); `paths`, `records`, `packet`, `handshake` and `listener` (the bytes of VisionIPC);
`stream`, `source` and `server` (what the rest of the project uses).
"""

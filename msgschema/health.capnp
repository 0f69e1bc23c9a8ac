@0xf5a1c07d63b92e48;
# How this daemon fares. It travels in the last slot that openpilot reserves for others, under the
# id which that slot has there, so that openpilot's readers see an empty struct and skip it.

struct ModeldHealth @0xa4f1eb3323f5f582 {
  # Identity (sha256:…) and name of the loaded artifact; empty while none is.
  artifactId @0 :Text;
  artifactName @1 :Text;
  verdict @2 :Verdict;
  # Why the verdict is not ok, one reason a line, both sides named.
  verdictReasons @3 :List(Text);
  state @4 :State;
  # One line about the state when it is not running: what is waited for or missing.
  stateReason @5 :Text;
  counters @6 :Counters;
  # Of the last completed turn, in order.
  stages @7 :List(Stage);
  # End of frame of the last published frame and its age at logMonoTime; 0 and 0 before the first.
  lastFrameId @8 :UInt32;
  lastFrameEof @9 :UInt64;
  lastFrameAgeNs @10 :UInt64;
  uptimeNs @11 :UInt64;
  # Every turn answered since the message before this one, oldest first.
  turns @12 :List(Turn);

  enum Verdict {
    unknown @0;
    ok @1;
    degraded @2;
    refuse @3;
  }

  enum State {
    loading @0;
    warming @1;
    running @2;
    degraded @3;
    stalled @4;
  }

  # Since the daemon started.
  struct Counters {
    frames @0 :UInt64;
    drops @1 :UInt64;
    outOfSyncPairs @2 :UInt64;
    nonFiniteOutputs @3 :UInt64;
    frozenOutputs @4 :UInt64;
    cacheHits @5 :UInt64;
    cacheMisses @6 :UInt64;
    rejectedMessages @7 :UInt64;
    rejectedFrames @8 :UInt64;
    deadlineMisses @9 :UInt64;
    reconnects @10 :UInt64;
    # Cameras whose frame ids jumped back, or whose timestamps did not advance.
    frameIdsBack @11 :UInt64;
    timestampsStalled @12 :UInt64;
    # How camera frames reached the device: as they lie in the camera server's memory, or by a copy.
    framesInPlace @13 :UInt64;
    framesCopied @14 :UInt64;
    # Times that the wide camera gave no frame for 100 ms while the narrow one's waited for it.
    wideMissing @15 :UInt64;
  }

  struct Stage {
    name @0 :Text;
    durationNs @1 :UInt64;
  }
  # Boundaries of a turn in ns on CLOCK_MONOTONIC, and the device's own durations in ns.
  struct Turn {
    frameId @0 :UInt32;
    timestampEof @1 :UInt64;
    # Main frame in hand; pair complete; outputs on the host; parsed; all messages sent.
    received @2 :UInt64;
    synced @3 :UInt64;
    executed @4 :UInt64;
    parsed @5 :UInt64;
    published @6 :UInt64;
    upload @7 :UInt64;
    warp @8 :UInt64;
    model @9 :UInt64;
    read @10 :UInt64;
  }
}

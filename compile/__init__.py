"""The build side: ONNX in, artifact out. Never imported by the device side."""

try:
    import compile.environment  # noqa: F401 - before anything that imports tinygrad
except KeyboardInterrupt:  # the first moment of a command, which has nothing to tell yet
    raise SystemExit(130) from None

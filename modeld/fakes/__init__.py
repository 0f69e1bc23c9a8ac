"""Stand-ins for the device's clock, wires, camera and GPU: real behaviour, no hardware."""

"""Training: offline, on the build side only; nothing of it runs in a vehicle."""

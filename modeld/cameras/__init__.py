"""Frame sources: what a camera gives, and how pairs of frames are made of it."""

"""Training the reference driving network in the procedural world."""

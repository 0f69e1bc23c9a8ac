"""A procedural road: what is there, what cameras see of it, and how the car drives on it."""

"""The latency-budget rig: does the daemon keep its deadline, and by how much."""

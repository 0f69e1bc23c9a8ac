"""The sub-commands of `modeld`, one file each."""

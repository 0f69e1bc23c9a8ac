"""The command `modeld`, also as `python -m modeld`."""

import sys


def main() -> int:
    """Run the command; Ctrl-C while it is still being imported ends it without a traceback."""
    try:
        from modeld.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

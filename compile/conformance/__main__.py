"""`python -m compile.conformance`."""

import sys

from compile.conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())

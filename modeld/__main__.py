"""`python -m modeld`."""

import sys

from modeld.cli import main

sys.exit(main())

"""`python -m compile` is `modeld-compile`."""

import sys

from compile.cli import main

sys.exit(main())

"""`python -m insitu`: the command line."""

import sys

from insitu.cli import main

sys.exit(main())

"""`python -m specdec_native.train`."""

import sys

from .command import main

sys.exit(main())

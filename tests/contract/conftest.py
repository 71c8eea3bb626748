"""Trainers that are not installed are stood in for by `standins/`, written from their interfaces.

The path goes last, so a trainer that is installed is itself.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).with_name("standins")))

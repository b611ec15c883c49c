"""Puts tests/ on the import path, so that every suite can use tests/support."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

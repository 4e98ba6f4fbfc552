"""Tests in this folder make real laboratories: they need namespaces and /dev/net/tun, and fail without."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

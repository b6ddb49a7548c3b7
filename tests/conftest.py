from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)  # the same cases every time
if os.environ.get("CI"):
    settings.load_profile("ci")

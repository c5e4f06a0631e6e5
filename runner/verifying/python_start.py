"""Goes into the sandbox beside the tests, as sitecustomize.py: every Python that a verifier starts runs it first.

With PYTHONSAFEPATH=1 Python finds no module in the working directory or beside a script, so one that an agent planted there
(json.py, pytest.py) replaces none. Here that folder comes back, behind all others: honest programs of several modules run,
and what is installed still comes first.
"""

import os
import sys

if getattr(sys.flags, "safe_path", False):
    _program = sys.argv[0] if getattr(sys, "argv", None) else ""
    _is_script = _program not in ("", "-", "-c", "-m")
    _folder = os.path.dirname(os.path.realpath(_program)) if _is_script else os.getcwd()  # noqa: PTH109, PTH120
    sys.path.append(_folder)

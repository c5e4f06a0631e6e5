"""Settings under which tests run: no installation's files are touched, and nobody answers as broker."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# Each process of pytest-xdist gets its own: files in it are named by experiments, and tests repeat those.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if "SKILLGLASS_VAR" not in os.environ or os.environ.get("TESTS_VAR_OF", "") != WORKER:
    os.environ["SKILLGLASS_VAR"], os.environ["TESTS_VAR_OF"] = tempfile.mkdtemp(prefix="skillglass-tests-"), WORKER
    atexit.register(shutil.rmtree, os.environ["SKILLGLASS_VAR"], ignore_errors=True)
os.environ["SINGLE_USER"] = "1"  # tests of accounts turn it off
os.environ["REDIS_URL"] = "redis://127.0.0.1:1/0"  # a test that needs a broker starts one

from benchapp.settings import *  # noqa: E402, F403

# A login in a test need not take the third of a second that makes guessing slow.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# In a file, as installations have it: threads that share a database in memory lock whole tables, and do not wait.
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": VAR_DIR / "tests.sqlite3"}  # noqa: F405
    DATABASES["default"]["OPTIONS"]["init_command"] += " PRAGMA synchronous=OFF;"  # noqa: F405
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # noqa: F405  (whitenoise warns where there is none)

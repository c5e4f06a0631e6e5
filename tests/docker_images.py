"""The image that tests in containers stand on, made from Debian's packages: no registry of images is asked.

    python tests/docker_images.py     makes it, where it is not there yet

Needs debootstrap and root (once; the image is kept under its tag). It holds bash, Python, git and certificates.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

BASE_IMAGE = "skillglass-test-base:1"
SUITE = "bookworm"
PYTHON = "3.11"  # of that suite
PACKAGES = ("bash", "ca-certificates", "git", "python3", "procps")
TMUX = ("tmux", "libevent-core-2.1-7", "libutempter0", "libtinfo6")
NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists")


@cache
def base_image() -> str:
    """The tag of the base image, which is made first where it is missing. Safe to call in several processes at once."""
    with Path(tempfile.gettempdir(), f"skillglass-test-image-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if subprocess.run(["docker", "image", "inspect", BASE_IMAGE], capture_output=True).returncode != 0:
            _make()
    return BASE_IMAGE


@cache
def image_with(package: str) -> str:
    """The base image with a package of Python's index and what it needs, "name==version". Kept under its tag, too."""
    name, _, version = package.partition("==")
    tag = f"skillglass-test-{name}:{version}"
    with Path(tempfile.gettempdir(), f"skillglass-test-{name}-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if subprocess.run(["docker", "image", "inspect", tag], capture_output=True).returncode != 0:
            with tempfile.TemporaryDirectory(prefix=f"skillglass-{name}-") as folder:
                _build_with(package, tag, Path(folder))
    return tag


@cache
def image_with_tmux() -> str:
    """The base image with tmux, in which Harbor's own agent types. From Debian's packages, as the base image is."""
    tag = "skillglass-test-tmux:1"
    with Path(tempfile.gettempdir(), f"skillglass-test-tmux-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if subprocess.run(["docker", "image", "inspect", tag], capture_output=True).returncode != 0:
            with tempfile.TemporaryDirectory(prefix="skillglass-tmux-") as folder:
                _build_with_tmux(tag, Path(folder))
    return tag


def _build_with_tmux(tag: str, folder: Path) -> None:
    subprocess.run(["apt-get", "download", *TMUX], cwd=folder, check=True, capture_output=True)
    for package in folder.glob("*.deb"):
        _run("dpkg", "-x", str(package), str(folder / "root"))
    shutil.copytree(
        folder / "root" / "lib", folder / "root" / "usr" / "lib", dirs_exist_ok=True
    )  # /lib is a link there
    (folder / "Dockerfile").write_text(f"FROM {base_image()}\nCOPY root/usr /usr\nRUN tmux -V\n")
    _run("docker", "build", "--quiet", "--tag", tag, str(folder))


def _build_with(package: str, tag: str, folder: Path) -> None:
    """Installed here for the image's Python: its own has no pip, and a build may have no network."""
    flags = ["--quiet", "--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"]
    flags += [f"--platform=manylinux_2_{minor}_{platform.machine()}" for minor in (28, 17)]
    _run(sys.executable, "-m", "pip", "install", *flags, "--target", str(folder / "site"), package)
    (folder / "Dockerfile").write_text(f"FROM {base_image()}\nCOPY site /opt/site\nENV PYTHONPATH=/opt/site\n")
    _run("docker", "build", "--quiet", "--tag", tag, str(folder))


def can_be_made() -> bool:
    """Is the image there, or what it takes to make it?"""
    inspected = subprocess.run(["docker", "image", "inspect", BASE_IMAGE], capture_output=True)
    return inspected.returncode == 0 or (shutil.which("debootstrap") is not None and os.getuid() == 0)


def _make() -> None:
    with tempfile.TemporaryDirectory(prefix="skillglass-base-") as folder:
        root = Path(folder, "root")
        _run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root))
        for place in NOT_NEEDED:
            shutil.rmtree(root / place, ignore_errors=True)
            (root / place).mkdir(parents=True)
        archive = Path(folder, "root.tar")
        _run("tar", "--numeric-owner", "-C", str(root), "-cf", str(archive), ".")
        settings = ("ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 'CMD ["bash"]')
        changes = [part for setting in settings for part in ("--change", setting)]
        _run("docker", "import", *changes, str(archive), BASE_IMAGE)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    print(base_image())

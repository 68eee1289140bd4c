"""A PostgreSQL server of the test's own, on loopback; None where PostgreSQL is not installed."""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def binaries():
    """The folder with initdb, which distributions keep off the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return Path(folders[-1]).parent if folders else None


class Server:
    """A fresh server, which can be stopped in the middle of everything and started again.

    Args:
        safe: Whether it waits for the disk at every commit, as it has to where it will be stopped at once.
    """

    def __init__(self, safe=False):
        self._programs = binaries()
        assert self._programs is not None
        self._folder = Path(tempfile.mkdtemp(prefix="boke-pg-", dir="/tmp"))  # a socket's path must be short
        self._how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            self._how["user"] = next(name for name in ("postgres", "nobody") if _known(name))
            shutil.chown(self._folder, self._how["user"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._data, self._safe = self._folder / "data", safe
        make = [self._programs / "initdb", "-D", self._data, "-U", "boke", "-A", "trust", "-E", "UTF8"]
        subprocess.run(make, check=True, **self._how)
        self.url = f"postgresql+psycopg2://boke@127.0.0.1:{self.port}/postgres"
        self.start()

    def start(self):
        command = [self._programs / "postgres", "-D", self._data, "-h", "127.0.0.1", "-p", str(self.port)]
        command += ["-k", self._folder] + ([] if self._safe else ["-F"])
        self._process = subprocess.Popen(command, **self._how)
        _wait(self.port)

    def stop(self, sign=signal.SIGINT):
        """SIGINT does not wait for clients to leave, SIGQUIT for nothing at all: an immediate shutdown."""
        self._process.send_signal(sign)
        self._process.wait(timeout=60)

    def close(self):
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def server():
    """Start a fresh server, yield its URL, stop it."""
    with contextlib.closing(Server()) as found:
        yield found.url


def _known(name):
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name)


def _wait(port):
    import psycopg2

    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg2.connect(host="127.0.0.1", port=port, user="boke", dbname="postgres").close()
            return
        except psycopg2.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)

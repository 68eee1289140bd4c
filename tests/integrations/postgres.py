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


@contextlib.contextmanager
def server():
    """Start a fresh server, yield its URL, stop it."""
    programs = binaries()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="boke-pg-", dir="/tmp"))  # a socket's path must be short
    how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        user = next(name for name in ("postgres", "nobody") if _known(name))
        how["user"] = user
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    subprocess.run([programs / "initdb", "-D", data, "-U", "boke", "-A", "trust", "-E", "UTF8"], check=True, **how)
    command = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
    process = subprocess.Popen(command, **how)
    try:
        _wait(port)
        yield f"postgresql+psycopg2://boke@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)  # does not wait for clients to leave
        process.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


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

"""Ctrl-C ends the command at once, wherever it is."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: Half a minute inside one call that does not look for signals, as a pass of a compiler; `ready` says that it has begun.
BUSY = """
import hashlib, os, sys
def busy():
    os.write(ready, b"r")
    {before}
    hashlib.pbkdf2_hmac("sha256", b"", b"", 30_000_000)
ready = {ready}
busy()
"""


@pytest.mark.parametrize("before", ["pass", "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)"], ids=["", "stderr redirected"])
def test_inside_a_call_that_does_not_listen(tmp_path: Path, before: str) -> None:
    import os

    started, ready = os.pipe()
    (tmp_path / "busy.py").write_text(BUSY.format(before=before, ready=ready))
    command = [sys.executable, "-c", "from gtsim.cli import main; main()", "predict", str(tmp_path / "busy.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[ready],
                               cwd=tmp_path)
    os.close(ready)
    assert os.read(started, 1) == b"r"
    os.close(started)
    time.sleep(0.1)
    asked = time.perf_counter()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and err == "interrupted\n"
    assert time.perf_counter() - asked < 2  # half a second on an idle machine; the call alone takes more than ten


def test_a_command_that_ends_leaves_no_trace() -> None:
    from gtsim.interrupt import ends_at_once

    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    asked: list[int] = []
    with ends_at_once(asked.append):
        pass
    with pytest.raises(KeyboardInterrupt), ends_at_once(asked.append):
        signal.raise_signal(signal.SIGINT)
        time.sleep(5)
    time.sleep(0.3)
    assert asked == [] and signal.set_wakeup_fd(before) == before


def test_whatever_a_compiler_makes_of_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that was interrupted raises an error of its own: the command still says that it was interrupted, and no more."""
    import os

    from gtsim import cli
    from gtsim.interrupt import asked, ends_at_once

    def passes(arguments: list[str]) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        while not asked():
            time.sleep(0.01)
        raise RuntimeError("")

    monkeypatch.setattr(cli, "_invoke", passes)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with ends_at_once(lambda _: None):
            assert cli.run([]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"

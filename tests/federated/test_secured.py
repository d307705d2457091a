"""A whole run under TLS with keys of the devices, by the commands that docs/federated.md shows; others are refused."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.errors import DataError
from insitu.federated.ports import free_port
from insitu.federated.security import Security, check_server
from tests.federated.fleet import fresh, members

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')
DOCS = Path(__file__).parents[2] / "docs" / "federated.md"


def lines() -> list[str]:
    """The commands under `Certificates and keys`."""
    block = re.search(r"## Certificates and keys.*?```sh\n(.*?)```", DOCS.read_text(), re.S)
    assert block
    return [line for line in block[1].splitlines() if line]


def command(line: str, port: int) -> list[str]:
    words = shlex.split(line.replace("9443", str(port)))
    return [sys.executable, "-m", *words] if words[0] == "insitu" else words


def started(line: str, port: int, folder: Path, log: str) -> subprocess.Popen:
    with (folder / log).open("wb") as out:
        return subprocess.Popen(command(line, port), cwd=folder, stdout=out, stderr=out)


def refused(line: str, port: int, folder: Path) -> str:
    done = subprocess.run(command(line, port), cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="no ssh-keygen")
def test_the_documented_run_under_tls_completes_and_strangers_are_refused(tmp_path):
    fresh().save(tmp_path / "g.insitu")
    x, y = members(1)[0]
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    *made, serve, join = lines()
    for line in made:
        subprocess.run(command(line, 0), cwd=tmp_path, check=True, capture_output=True)
    for line in (made[0].replace("authority", "other"), made[-1].replace("watch", "stranger")):
        subprocess.run(command(line, 0), cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    with ExitStack() as stack:
        server = started(serve, port, tmp_path, "serve.log")
        stack.callback(server.terminate)
        wait_for(port, tmp_path / "serve.log")
        stranger = refused(join.replace("authority.pem", "other.pem"), port, tmp_path)
        assert "could not show that it is the right one" in stranger
        assert "the server refused this device" in refused(join.replace("watch", "stranger"), port, tmp_path)
        device = started(join, port, tmp_path, "join.log")
        stack.callback(device.terminate)
        assert server.wait(300) == 0, (tmp_path / "serve.log").read_text()[-2000:]
    assert insitu.open(tmp_path / "together.insitu").evaluate(*members(1)[0])["accuracy"] > 0
    assert not (tmp_path / "together.insitu.rounds").exists()


@pytest.mark.slow
def test_three_devices_are_summed_under_masks_by_flowers_processes(tmp_path):
    fresh().save(tmp_path / "g.insitu")
    port = free_port()
    masks = "--secure --clip 0.5"
    with ExitStack() as stack:
        line = f"insitu fleet serve g.insitu --clients 3 --rounds 2 --rate 0.02 --port 9443 {masks} -o together.insitu"
        server = started(line, port, tmp_path, "serve.log")
        stack.callback(server.terminate)
        for k, (x, y) in enumerate(members(3)):
            np.savez(tmp_path / f"{k}.npz", x=x, y=y)
            line = f"insitu fleet join g.insitu --data {k}.npz --superlink 127.0.0.1:9443 {masks}"
            stack.callback(started(line, port, tmp_path, f"{k}.log").terminate)
        assert server.wait(500) == 0, (tmp_path / "serve.log").read_text()[-2000:]
    about = json.loads((tmp_path / "together.insitu.json").read_text())
    assert not about["dropped"] and about["secure"] == 0.5
    assert [(r["replies"], r["loss"]) for r in about["rounds"]] == [(3, 0.0)] * 2  # no device told its loss


def wait_for(port: int, log: Path, seconds: float = 120) -> None:
    """Until the server says that devices may join: their keys are registered then."""
    end = time.monotonic() + seconds
    while f":{port}" not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


@pytest.mark.parametrize("given, words", [
    ({"certificate": Path("x.pem")}, "needs certificate=, key= and authority="),
    ({"nodes": (Path("a.pub"),)}, "mean nothing without a certificate"),
    ({"node_key": Path("a.key")}, "only to a server that it knows"),
    ({"authority": Path("nowhere.pem")}, "there is no such file"),
])  # fmt: skip
def test_half_a_protection_is_refused(given, words):
    with pytest.raises(DataError, match=words):
        Security(**given).checked()


def test_a_server_that_does_not_listen_yet_is_waited_for():
    authority = Path(pytest.importorskip("certifi").__file__).parent / "cacert.pem"
    check_server(f"127.0.0.1:{free_port()}", authority)

"""`insitu zoo get` against a server of our own that cuts connections, lies and stalls: right bytes or a clear error."""

import hashlib
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from insitu.cli import main
from insitu.errors import DataError
from insitu.zoo import ENTRIES, fetch, find, get, zoo_folder

BYTES = np.random.default_rng(0).bytes(300_000)


@dataclass
class Behaviour:
    """What the server does; `asked` keeps the first byte that each request asked for."""

    data: bytes = BYTES
    cut: int = 0  # bytes after which a connection is closed, if any
    ranges: bool = True
    status: int = 0  # answered instead of the file
    length: bool = True  # is the length told?
    asked: list[int] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def do_GET(self):
        how = self.behaviour
        first = int(self.headers.get("Range", "bytes=0-")[6:-1])
        how.asked.append(first)
        if how.status or self.path != "/small.pkl":
            return self.send_error(how.status or 404)
        first = first if how.ranges else 0
        if first >= len(how.data):
            return self.send_error(416)
        left = how.data[first:]
        self.send_response(206 if first else 200)
        if how.length:
            self.send_header("Content-Length", str(len(left)))
        self.end_headers()
        self.wfile.write(left[: how.cut or None])
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A server on loopback, and an entry of the zoo whose mirror it is."""
    behaviour = Behaviour()
    handler = type("Served", (Handler,), {"behaviour": behaviour})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    digest = hashlib.sha256(BYTES).hexdigest()
    entry = replace(ENTRIES["mcunet-5fps"], name="small", file="small.pkl", bytes=len(BYTES), sha256=digest)
    monkeypatch.setitem(ENTRIES, "small", entry)
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("INSITU_ZOO", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(fetch, "PAUSE", 0.001)
    yield behaviour
    server.shutdown()
    server.server_close()


def leftovers():
    return [p.name for p in zoo_folder().iterdir() if p.suffix == ".get"]


def test_a_file_is_downloaded_once_and_found(served, capsys):
    assert main(["zoo", "get", "small"]) == 0
    assert find("small").read_bytes() == BYTES and str(find("small")) in capsys.readouterr().out
    get("small")
    assert served.asked == [0] and not leftovers()


def test_progress_counts_up_to_the_whole_file(served):
    seen = []
    get("small", lambda words, done, total: seen.append((done, total)))
    assert seen[-1] == (300, 300) and sorted(seen) == seen


def test_a_cut_connection_is_resumed_where_it_stopped(served):
    served.cut = 70_000
    assert get("small").read_bytes() == BYTES
    assert served.asked == [0, 70_000, 140_000, 210_000, 280_000]


def test_a_cut_connection_without_a_length_is_seen_too(served):
    served.cut, served.length = 200_000, False
    assert get("small").read_bytes() == BYTES


def test_a_server_that_cannot_resume_sends_it_all_again(served):
    zoo_folder().mkdir(parents=True)
    (zoo_folder() / ".small.pkl.get").write_bytes(b"x" * 1000)
    served.ranges = False
    assert get("small").read_bytes() == BYTES and served.asked == [1000]


def test_an_interrupted_download_goes_on_in_the_next_call(served):
    def stop(words, done, total):
        if done >= 100:
            raise KeyboardInterrupt

    served.cut = 150_000
    with pytest.raises(KeyboardInterrupt):
        get("small", stop)
    assert leftovers()
    served.cut = 0
    assert get("small").read_bytes() == BYTES and served.asked[1] > 0


@pytest.mark.parametrize("wrong", [BYTES[:-1] + b"?", b"<html>not found</html>" * 14_000])
def test_wrong_bytes_are_never_kept(served, wrong):
    served.data = wrong
    with pytest.raises(DataError, match="other bytes|more than"):
        get("small")
    assert not (zoo_folder() / "small.pkl").exists()
    served.data = BYTES
    assert get("small").read_bytes() == BYTES, "the next try starts clean"


@pytest.mark.parametrize("size", [1000, len(BYTES), 400_000])
def test_a_leftover_of_another_file_costs_one_download(served, size):
    zoo_folder().mkdir(parents=True)
    (zoo_folder() / ".small.pkl.get").write_bytes(b"x" * size)
    assert get("small").read_bytes() == BYTES


def test_a_file_that_is_too_short_is_an_error_that_says_so(served):
    served.data = BYTES[:1000]
    with pytest.raises(DataError, match="416|closed too early"):
        get("small")


@pytest.mark.parametrize("status, tries", [(404, 1), (403, 1), (503, fetch.TRIES)])
def test_an_answer_that_no_second_try_changes_ends_it_at_once(served, status, tries):
    served.status = status
    with pytest.raises(DataError, match=str(status)):
        get("small")
    assert len(served.asked) == tries


def test_no_server_at_all_is_one_clear_error(served, monkeypatch, capsys):
    monkeypatch.setenv("INSITU_ZOO", "http://127.0.0.1:9")
    assert main(["zoo", "get", "small"]) == 1
    assert "refused" in capsys.readouterr().err


def test_a_folder_can_be_the_mirror(served, monkeypatch, tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "small.pkl").write_bytes(BYTES)
    monkeypatch.setenv("INSITU_ZOO", str(mirror))
    assert get("small").read_bytes() == BYTES
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path / "another"))
    (mirror / "small.pkl").unlink()
    with pytest.raises(DataError, match="no such file"):
        get("small")


def test_other_kinds_of_addresses_are_refused(served, monkeypatch):
    monkeypatch.setenv("INSITU_ZOO", "ftp://127.0.0.1/zoo")
    with pytest.raises(DataError, match="only http"):
        get("small")


def test_two_at_once_download_once(served):
    found = []
    both = [threading.Thread(target=lambda: found.append(get("small").read_bytes())) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found == [BYTES, BYTES] and served.asked == [0]


def test_an_entry_that_a_user_packs_says_how_it_is_made(served, monkeypatch):
    monkeypatch.delenv("INSITU_ZOO")
    with pytest.raises(DataError, match="cannot be downloaded") as e:
        get("flowers102")
    assert "insitu zoo add" in e.value.hint

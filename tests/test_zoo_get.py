"""`insitu zoo get` against a server of our own that cuts connections, lies and stalls: right bytes or a clear error."""

import hashlib
import signal
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
    shifted: int = 0  # bytes by which a resumed answer begins elsewhere, and says so
    asked: list[int] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def do_GET(self):
        how = self.behaviour
        first = int(self.headers.get("Range", "bytes=0-")[6:-1])
        how.asked.append(first)
        if how.status or self.path != "/small.pkl":
            return self.send_error(how.status or 404)
        first = max(first + how.shifted, 0) if first and how.ranges else 0
        if first >= len(how.data):
            return self.send_error(416)
        left = how.data[first:]
        resumed = how.ranges and how.asked[-1] > 0
        self.send_response(206 if resumed else 200)
        if resumed:
            self.send_header("Content-Range", f"bytes {first}-{len(how.data) - 1}/{len(how.data)}")
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


@pytest.mark.parametrize("shifted", [-100_000, -1000])
def test_an_answer_that_begins_before_the_bytes_asked_for_is_put_where_it_belongs(served, shifted):
    zoo_folder().mkdir(parents=True)
    (zoo_folder() / ".small.pkl.get").write_bytes(BYTES[:70_000])
    served.shifted = shifted
    assert get("small").read_bytes() == BYTES and served.asked == [70_000]


def test_an_answer_that_leaves_out_bytes_is_not_appended(served):
    zoo_folder().mkdir(parents=True)
    (zoo_folder() / ".small.pkl.get").write_bytes(BYTES[:70_000])
    served.shifted = 1000
    with pytest.raises(DataError, match="bytes from 71,000 on, not from 70,000"):
        get("small")


def test_a_full_disk_is_said_at_once_and_not_blamed_on_the_server(served, capsys):
    resource = pytest.importorskip("resource", reason="limits the size of files")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        assert main(["zoo", "get", "small"]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    words = capsys.readouterr().err
    assert f"{zoo_folder()}: cannot be written" in words and "http" not in words and len(served.asked) == 1
    assert get("small").read_bytes() == BYTES and served.asked[1] == 200_000


@pytest.mark.parametrize("command", [["get", "small"], ["add", "{small}", "--as", "small"]])
@pytest.mark.parametrize("blocked", ["", "zoo", "zoo/small.pkl/x"])
def test_a_cache_that_cannot_be_written_is_one_line(served, monkeypatch, tmp_path, capsys, command, blocked):
    """A file stands where a folder should be, or a folder where the file should be."""
    (tmp_path / "small").write_bytes(BYTES)
    in_the_way = tmp_path / "other" / blocked
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.write_bytes(b"")
    monkeypatch.setenv("INSITU_CACHE", str(tmp_path / "other"))
    assert main(["zoo", *(word.format(small=tmp_path / "small") for word in command)]) == 1
    words = capsys.readouterr().err
    assert "cannot be" in words and "Traceback" not in words and words.count("\n") <= 2


@pytest.mark.parametrize("address", ["http://[bad", "http://", "http://127.0.0.1:99999/zoo", "http://127.0.0.1:x/"])
def test_a_mirror_that_is_no_address_is_said_so(served, monkeypatch, address):
    monkeypatch.setenv("INSITU_ZOO", address)
    with pytest.raises(DataError, match="is not an address"):
        get("small")


def test_only_what_may_help_is_suggested(served, monkeypatch):
    served.status = 404
    with pytest.raises(DataError) as e:
        get("small")
    assert "the same again" not in e.value.hint
    with pytest.raises(DataError, match=r"no 'ad01_int8' \(did you mean ad01-int8\?\)"):
        get("ad01_int8")


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

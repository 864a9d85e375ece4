"""The command `report`: output, errors, server."""

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import pack
from typing import Any

import bert_reference
import numpy as np
import pytest
import report_store
import statements_report
from browser import Browser, needs_browser
from conftest import CommandResult
from numpy.random import Generator
from processes import wait_for

from meanfield.errors import InvalidInputError
from meanfield.pages.report import LOOPBACK, page_of, serve, subject_of
from meanfield.pages.report._serving import MOST_CLIENTS, Server

Command = Callable[..., CommandResult]


def data_of(page: str) -> dict[str, Any]:
    block = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert block is not None
    return json.loads(block[1])


def quiet(count: int, total: int) -> None:
    """Ignores progress."""


def test_a_page_has_the_requested_title(
    cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rng: Generator
) -> None:
    monkeypatch.setattr("meanfield.cli.commands.report.MOST_TOKENS", 29)  # no JAX
    report_store.finished_run(tmp_path / "run.zarr", report_store.moving_tokens(rng))
    assert cli("report", "run.zarr", "--title", "A < B").code == 0
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "<title>A &lt; B</title>" in page
    assert data_of(page)["title"] == "A < B"


def test_a_run_becomes_a_page_in_its_folder(
    cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rng: Generator
) -> None:
    monkeypatch.setattr("meanfield.cli.commands.report.MOST_TOKENS", 29)  # no JAX
    report_store.finished_run(tmp_path / "run.zarr", report_store.moving_tokens(rng))
    result = cli("report", "run.zarr")
    assert (result.code, result.out) == (0, "")
    assert "wrote run.html" in result.err
    page = (tmp_path / "run.html").read_text("utf-8")
    data = data_of(page)
    assert data["members"][0]["ending"] == "finished"
    assert data["lines"] is None
    assert "up to 29 tokens" in page
    assert "up to 29 tokens" in result.err
    for words in ("finished: the last time was reached.", "A = -1.0", "Provenance"):
        assert words in page
    assert "meanfield simulate keys.toml --out repeated.zarr" in page


def test_tokens_of_a_text_have_their_words(
    cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rng: Generator
) -> None:
    monkeypatch.setattr("meanfield.cli.commands.report.MOST_TOKENS", 1)  # no JAX
    model = bert_reference.write(tmp_path / "tiny")
    x = report_store.moving_tokens(rng, n=9)
    keys = {"model": str(model), "text": bert_reference.TEXT, "t": 2.0}
    report_store.finished_run(tmp_path / "run.zarr", x, keys)
    assert cli("report", "run.zarr").code == 0
    data = data_of((tmp_path / "run.html").read_text("utf-8"))
    assert data["words"][:2] == ["[CLS]", "the"]
    assert len(data["words"]) == 9
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "layer norms and MLPs are left out" in page
    model.rename(tmp_path / "moved")
    result = cli("report", "run.zarr", "--force")
    assert result.code == 0
    assert result.err.count("the page has no words: ") == 1
    page = (tmp_path / "run.html").read_text("utf-8")
    assert data_of(page)["words"] is None
    assert "<li>The page has no words: " in page


def test_linked_files_are_relative_to_the_page(
    cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rng: Generator
) -> None:
    monkeypatch.setattr("meanfield.cli.commands.report.MOST_TOKENS", 1)  # no JAX
    keys = {**report_store.SPEC, "A": f"@{tmp_path}/in/A.npy", "V": "@/else/V.npy"}
    x = report_store.moving_tokens(rng)
    report_store.finished_run(tmp_path / "run.zarr", x, keys)
    assert cli("report", "run.zarr").code == 0
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "A = &quot;@in/A.npy&quot;\n" in page
    assert "V = &quot;@/else/V.npy&quot;\n" in page
    assert "In the folder of this page, the commands need these files" in page
    (tmp_path / "else").mkdir()
    assert cli("report", "run.zarr", "--out", "else/run.html").code == 0
    page = (tmp_path / "else" / "run.html").read_text("utf-8")
    assert f"A = &quot;@{tmp_path}/in/A.npy&quot;\n" in page


@pytest.mark.slow
def test_lines_of_attention_match_softmax(
    cli: Command, tmp_path: Path, rng: Generator
) -> None:
    x = report_store.moving_tokens(rng)
    report_store.finished_run(tmp_path / "run.zarr", x)
    assert cli("report", "run.zarr").code == 0
    line_data = data_of((tmp_path / "run.html").read_text("utf-8"))["lines"]
    assert line_data["partners"]["shape"] == [9, 1, 30, 12]
    scores = np.exp(-np.einsum("tik,tjk->tij", x, x))  # A = -1, epsilon = 1
    rows = scores / scores.sum(axis=-1, keepdims=True)
    weights = np.frombuffer(
        zlib.decompress(base64.b64decode(line_data["weights"]["bytes"])), dtype="<u2"
    ).reshape(9, 30, 12)
    largest = np.sort(rows, axis=-1)[..., :-13:-1]
    np.testing.assert_allclose(weights / 65535, largest, atol=0.51 / 65535)


def test_a_verification_becomes_the_page_of_statements(
    cli: Command, tmp_path: Path
) -> None:
    check = statements_report.check("an identity", 1e-13)
    claim = statements_report.trial("statement", check)
    record = statements_report.report(statements_report.statement("a:eq-1", claim))
    (tmp_path / "verify.json").write_text(json.dumps(record))
    assert cli("report", "verify.json").code == 0
    page = (tmp_path / "verify.html").read_text("utf-8")
    assert 'id="a:eq-1"' in page
    assert "statements hold" in page


def _mismatched_shape(tmp: Path) -> list[str]:
    record = statements_report.report(statements_report.statement("a:eq-1"))
    del record["statements"][0]["claim"]
    (tmp / "verify.json").write_text(json.dumps(record))
    return ["verify.json"]


def _no_json(tmp: Path) -> list[str]:
    (tmp / "a.json").write_text("{")
    return ["a.json"]


def _list(tmp: Path) -> list[str]:
    (tmp / "a.json").write_text("[1]")
    return ["a.json"]


def _unrelated_record(tmp: Path) -> list[str]:
    (tmp / "a.json").write_text('{"a": 1}')
    return ["a.json"]


def _bad_comparison(tmp: Path) -> list[str]:
    record = '{"measures": {"points": {}}, "pairs": [], "spec": {"points": {}}}'
    (tmp / "comparison.json").write_text(record)
    return ["."]


def _folder(tmp: Path) -> list[str]:
    (tmp / "empty").mkdir()
    return ["empty"]


def _damage(tmp: Path) -> list[str]:
    path = report_store.finished_run(
        tmp / "run.zarr", report_store.moving_tokens(np.random.default_rng(0))
    )
    (chunk,) = (path / "data" / "segments" / "00001" / "x" / "c").rglob("0/0/0")
    os.truncate(chunk, 8)
    return ["run.zarr"]


def _run(*options: str) -> Callable[[Path], list[str]]:
    def run_with_options(tmp: Path) -> list[str]:
        moving = report_store.moving_tokens(np.random.default_rng(0))
        report_store.finished_run(tmp / "run.zarr", moving)
        return ["run.zarr", *options]

    return run_with_options


INVALID_INPUTS = {
    "nothing there": (lambda tmp: ["no.zarr"], 3, ["There is no file `no.zarr`"]),
    "no JSON": (_no_json, 3, ["`a.json` is not valid JSON"]),
    "a list": (_list, 3, ["`a.json` is not a JSON object"]),
    "another record": (_unrelated_record, 3, ["`a.json` is neither", "--json"]),
    "a verify of another shape": (
        _mismatched_shape,
        3,
        ["`verify.json` is not", "'claim'"],
    ),
    "a comparison of another shape": (_bad_comparison, 3, ["comparison.json` is not"]),
    "a folder": (_folder, 7, ["`empty` is not a run"]),
    "a damaged store": (_damage, 7, ["`x` of", "00001", "is damaged"]),
    "another suffix": (_run("--out", "a.pdf"), 2, ["`.pdf`", "`.html`"]),
    "no such folder": (_run("--out", "no/a.html"), 4, ["no folder `no`"]),
    "a port without a server": (_run("--port", "8000"), 2, ["`--watch`"]),
    "all networks": (_run("--watch", "--host", "0.0.0.0"), 2, ["0.0.0.0", "127.0.0.1"]),
    "a name": (_run("--watch", "--host", "example.org"), 2, ["loopback"]),
    "no port": (_run("--watch", "--port", "70000"), 2, ["65535"]),
    "a file where it writes": (_run("--watch", "--out", "a.html"), 2, ["`--out`"]),
    "a verify that is watched": (
        lambda tmp: [*_mismatched_shape(tmp), "--watch"],
        2,
        ["a run or a sweep", "verification"],
    ),
}


@pytest.mark.parametrize("case", INVALID_INPUTS.values(), ids=INVALID_INPUTS.keys())
def test_unreadable_inputs_are_rejected_in_one_line(
    cli: Command,
    tmp_path: Path,
    case: tuple[Callable[[Path], list[str]], int, list[str]],
) -> None:
    make, code, words = case
    result = cli("report", *make(tmp_path))
    assert result.code == code, result.err
    assert result.err.count("\n") == 1, result.err
    assert [word for word in words if word not in result.err] == []
    assert not list(tmp_path.glob("*.html"))


@pytest.fixture
def server_of_run(
    tmp_path: Path, rng: Generator
) -> Iterator[tuple[Server, Callable[[], None]]]:
    """A server of an unfinished run, and a function that finishes the run."""
    x = report_store.moving_tokens(rng)
    store = report_store.unfinished_run(tmp_path / "run.zarr", x)
    subject = subject_of(tmp_path / "run.zarr")
    server = serve(
        partial(page_of, subject, quiet), subject.path, host=LOOPBACK, port=0
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with server, store:
        yield server, partial(report_store.finish_run, store, x)
        server.shutdown()
        thread.join()


def test_a_served_page_is_notified_of_new_frames(
    server_of_run: tuple[Server, Callable[[], None]],
) -> None:
    server, go_on = server_of_run
    read = lambda name: urllib.request.urlopen(f"{server.url}{name}").read().decode()
    data = data_of(read(""))
    before = json.loads(read("state"))["state"]
    assert data["members"][0]["ending"] == "interrupted"
    assert data["times"]["shape"] == [6]
    assert data["state"] == before
    go_on()
    assert json.loads(read("state"))["state"] != before
    page = json.loads(read("page"))
    assert page["scene"]["times"]["shape"] == [9]
    assert page["scene"]["members"][0]["ending"] == "finished"
    assert "finished: the last time was reached." in page["cards"]


@pytest.mark.slow
@needs_browser
def test_an_open_page_loads_new_frames(
    server_of_run: tuple[Server, Callable[[], None]], tmp_path: Path
) -> None:
    server, go_on = server_of_run
    with Browser(tmp_path) as browser:
        browser.open(server.url)
        browser.value("goTo(2.5), camera.zoom = 3, repaint()")
        before = browser.value("byId('clock').textContent")
        go_on()
        browser.wait("frames() === 9")
        assert browser.value("byId('clock').textContent") == before
        assert browser.value("camera.zoom") == 3
        words = browser.value("byId('cards').textContent")
        assert "finished: the last time was reached." in words
        server.shutdown()
        server.server_close()
        browser.wait("byId('watched').textContent.includes('has ended')")
        assert [c for c in browser.complaints if "ERR_" not in c] == []


def test_the_server_listens_on_loopback_only(
    server_of_run: tuple[Server, Callable[[], None]],
) -> None:
    server, _ = server_of_run
    assert server.server_address[0] == LOOPBACK
    for address, code in (("", 403), ("passwd", 404)):
        host = {"Host": "evil.example"} if code == 403 else {}
        request = urllib.request.Request(f"{server.url}{address}", headers=host)
        with pytest.raises(urllib.error.HTTPError) as error_info:
            urllib.request.urlopen(request)
        assert error_info.value.code == code
        error_info.value.close()


def answer_to(server: Server, *parts: bytes, pause: float = 0.0) -> bytes:
    """The answer of a server to a client that pauses between its bytes."""
    with socket.create_connection((LOOPBACK, server.server_port), timeout=20) as client:
        for part in parts:
            with contextlib.suppress(ConnectionError):
                client.sendall(part)
            time.sleep(pause)
        with contextlib.suppress(ConnectionError):
            return b"".join(iter(partial(client.recv, 1 << 16), b""))
    return b""


def test_a_silent_client_is_disconnected(
    server_of_run: tuple[Server, Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whether it is silent, or sends a byte now and then."""
    server, _ = server_of_run
    monkeypatch.setattr("meanfield.pages.report._serving.PATIENCE", 0.3)
    before = threading.active_count()
    begin = time.monotonic()
    assert answer_to(server) == b""
    assert answer_to(server, *[b"G"] * 8, pause=0.1) == b""
    assert time.monotonic() - begin < 10
    monkeypatch.setattr(server.newest, "html", lambda: "x" * 50_000_000)
    with socket.create_connection((LOOPBACK, server.server_port)) as client:
        client.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        wait_for(lambda: threading.active_count() > before)
        wait_for(lambda: threading.active_count() == before)  # none waits for it
    assert capsys.readouterr().err == ""


def test_a_disconnecting_client_is_ignored(
    server_of_run: tuple[Server, Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, _ = server_of_run
    before = threading.active_count()
    monkeypatch.setattr(server.newest, "html", lambda: "x" * 50_000_000)
    for request in (b"", b"GET / HT", b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"):
        with socket.create_connection((LOOPBACK, server.server_port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
            client.sendall(request)
            time.sleep(0.05)
    wait_for(lambda: threading.active_count() == before)
    assert capsys.readouterr().err == ""


def test_the_number_of_clients_is_limited(
    server_of_run: tuple[Server, Callable[[], None]],
) -> None:
    server, _ = server_of_run
    ask = b"GET /state HTTP/1.0\r\nHost: localhost\r\n\r\n"
    full = threading.active_count() + 2 * MOST_CLIENTS  # with a timer for each
    with contextlib.ExitStack() as crowd:
        for _ in range(MOST_CLIENTS):
            client = socket.create_connection((LOOPBACK, server.server_port))
            crowd.enter_context(client)
        wait_for(lambda: threading.active_count() == full)
        assert answer_to(server, ask) == b""
    wait_for(lambda: b"200 OK" in answer_to(server, ask))


def test_an_occupied_port_is_reported(
    server_of_run: tuple[Server, Callable[[], None]],
) -> None:
    server, _ = server_of_run
    port = server.server_address[1]
    with pytest.raises(RuntimeError, match=rf"port {port}.*it is in use.*--port 0"):
        serve(lambda: pytest.fail("made"), Path(), host=LOOPBACK, port=port)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.org", ""])
def test_no_other_address_is_served(host: str) -> None:
    with pytest.raises(InvalidInputError, match="loopback"):
        serve(lambda: pytest.fail("made"), Path(), host=host, port=0)


@pytest.mark.slow
def test_ctrl_c_ends_the_server(tmp_path: Path, rng: Generator) -> None:
    report_store.finished_run(tmp_path / "run.zarr", report_store.moving_tokens(rng))
    command = [sys.executable, "-m", "meanfield", "report", "run.zarr", "--watch"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    address = re.search(r"http://127\.0\.0\.1:\d+/", line)
    assert address is not None, line
    assert b"<title>" in urllib.request.urlopen(address[0]).read()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert (process.returncode, rest.count("\n")) == (0, 0), rest

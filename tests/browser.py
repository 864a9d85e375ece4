"""A headless browser, driven over the DevTools protocol through two pipes."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium on the PATH: pages are not tried in a browser"
)
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
# Chromium reads its protocol from descriptor 3 and answers on 4.
BEGIN = """
import fcntl, os, sys
high = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60.0  # seconds for an answer on a busy machine
# Exceptions and error messages of scripts on a page.
_COMPLAINTS = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")


class Browser:
    """One page in Chromium, as a context manager; the process ends with it.

    Args:
        folder: empty, for its profile and its downloads.
    """

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        read_end, self._out = os.pipe()
        self._in, write_end = os.pipe()
        command = [PROGRAM, *OPTIONS, f"--user-data-dir={folder / 'profile'}"]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-ISc",
                BEGIN,
                str(read_end),
                str(write_end),
                *command,
                "about:blank",
            ],
            pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (read_end, write_end):
            os.close(end)
        self._rest, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.downloads = folder / "downloads"
        self._attach()

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        self._process.kill()
        self._process.wait()
        os.close(self._in)

    def _attach(self) -> None:
        pages = self.send("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        where = {"targetId": target, "flatten": True}
        self._session = self.send("Target.attachToTarget", **where)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.downloads.mkdir(parents=True, exist_ok=True)
        place = {"behavior": "allow", "downloadPath": str(self.downloads)}
        self.send("Page.setDownloadBehavior", **place)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one message of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._listen(answer)
        raise TimeoutError(method)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._in, 1 << 16)
            assert piece, "the browser has ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _listen(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event.get("method") not in _COMPLAINTS:
            return
        params = event["params"]
        kind = params.get("type") or params.get("entry", {}).get("level") or "error"
        if kind in ("error", "assert"):
            self.complaints.append(json.dumps(params)[:2000])

    def open(self, address: str) -> None:
        """Goes to a page and waits until it has drawn."""
        self.send("Page.navigate", url=address)
        self.wait("performance.getEntriesByName('first picture').length > 0")

    def wait(self, condition: str) -> None:
        """Waits until an expression of the page is true."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.value(f"Boolean({condition})"):
                return
            time.sleep(0.05)
        raise TimeoutError(f"{condition}; {self.complaints}")

    def value(self, expression: str) -> Any:
        """The value of an expression on the page, after its promise is resolved."""
        wishes = {"returnByValue": True, "awaitPromise": True}
        answer = self.send("Runtime.evaluate", expression=expression, **wishes)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Resizes the window and sets its colour scheme."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", mobile=False, **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def key(self, key: str) -> None:
        """Presses a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drags the mouse from one point to another."""
        for kind, (x, y) in zip(
            ("mousePressed", "mouseMoved", "mouseReleased"),
            (start, end, end),
            strict=True,
        ):
            event = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, buttons=1, **event)

    def middle(self, selector: str) -> tuple[float, float]:
        """The centre of an element in the window, after scrolling it into view."""
        box = (
            f"(() => {{ const e = document.querySelector({selector!r}); "
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        x, y = self.value(box)
        return x, y

    def photograph(self, file: Path, *, whole: bool = True) -> None:
        """Saves a screenshot of the page, or of its visible part."""
        wishes = {"format": "png", "captureBeyondViewport": whole}
        data = self.send("Page.captureScreenshot", **wishes)["data"]
        file.write_bytes(base64.b64decode(data))

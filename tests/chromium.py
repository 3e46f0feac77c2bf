"""Drives headless Chromium over its pipe: opens a page from a file, evaluates JavaScript, and lists what it requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run")
WATCH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}  # workers start when they are watched


class Page:
    """A page of a browser of its own."""

    def __init__(self, profile: Path) -> None:
        (commands, to_browser), (from_browser, answers) = os.pipe(), os.pipe()
        script = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        arguments = ["bash", "-c", script, str(PROGRAM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(arguments, pass_fds=(commands, answers), stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.to, self.answers = os.fdopen(to_browser, "wb", 0), os.fdopen(from_browser, "rb")
        self.count, self.requests, self.faults = 0, list[str](), list[str]()
        self.session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for method, parameters in (("Network.enable", {}), ("Runtime.enable", {}), ("Target.setAutoAttach", WATCH)):
            self.call(method, **parameters)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        self.to.close()
        self.answers.close()

    def call(self, method: str, **parameters: object) -> Any:
        """Sends a command and returns its answer. Events that come before it are noted."""
        number = self._send(method, self.session, **parameters)
        while (message := self._read()).get("id") != number:
            self._note(message)
        assert "error" not in message, message
        return message["result"]

    def _send(self, method: str, session: str, **parameters: object) -> int:
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        self.to.write(json.dumps(command).encode() + b"\0")
        return self.count

    def _read(self) -> dict[str, Any]:
        message = bytearray()
        while (letter := self.answers.read(1)) != b"\0":
            assert letter, "the browser has ended"
            message += letter
        read: dict[str, Any] = json.loads(message)
        return read

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Target.attachedToTarget":
                for method in ("Network.enable", "Runtime.enable", "Runtime.runIfWaitingForDebugger"):
                    self._send(method, message["params"]["sessionId"])
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            case "Runtime.exceptionThrown":
                self.faults.append(str(message["params"]["exceptionDetails"]))

    def open(self, path: Path) -> None:
        """Opens a file."""
        self.call("Page.navigate", url=path.as_uri())

    def evaluate(self, script: str) -> Any:
        """Returns the value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 120) -> Any:
        """Returns the value of an expression as soon as it is not empty."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            assert time.monotonic() < end, f"{script}: nothing in {seconds} s; {self.faults}"
            time.sleep(0.05)
        return value

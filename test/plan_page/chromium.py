# Copyright 2026 The robot_infer authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""A real Chromium without a window, driven over its own pipe: nothing to install for it.

It speaks the DevTools protocol over two pipes (--remote-debugging-pipe): JSON with a null byte
behind each message. No driver, no port, no network.
"""

from __future__ import annotations

from collections.abc import Callable
import fcntl
import itertools
import json
import os
from pathlib import Path
import select
import shutil
import signal
import subprocess
import time
from typing import Any

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome')
_PATIENCE_S = 60.0
_KEYS = {'Tab': 9, 'ArrowLeft': 37, 'ArrowUp': 38, 'ArrowRight': 39, 'ArrowDown': 40, 'Home': 36,
         'End': 35, 'Enter': 13, ' ': 32}
# It refuses a sandbox to root, and cannot have one in many containers; the pages are ours.
_FLAGS = ('--headless=new', '--remote-debugging-pipe', '--no-first-run', '--disable-gpu',
          '--disable-dev-shm-usage', '--disable-extensions', '--disable-sync', '--mute-audio',
          '--disable-background-networking', '--disable-component-update', '--no-proxy-server',
          '--no-default-browser-check', '--no-sandbox', '--force-prefers-reduced-motion')


def find_chromium() -> str | None:
    """The first Chromium or Chrome on this machine."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    """One browser process and its one page."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._said = profile / 'said.txt'

        def hand_over() -> None:
            # In the child: the protocol is on descriptors 3 and 4. First out of the way of both.
            ours = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10)
                    for one in (to_browser, from_browser)]
            os.dup2(ours[0], 3)
            os.dup2(ours[1], 4)

        self._process = subprocess.Popen(
            [program, *_FLAGS, f'--user-data-dir={profile}', 'about:blank'],
            preexec_fn=hand_over, close_fds=False, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self._said.open('wb'))
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b''
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = next(one for one in self.call('Target.getTargets')['targetInfos']
                      if one['type'] == 'page')
        self._session = self.call('Target.attachToTarget', targetId=target['targetId'],
                                  flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        message = {'id': number, 'method': method, 'params': params}
        if self._session:
            message['sessionId'] = self._session
        os.write(self._write, json.dumps(message).encode() + b'\0')
        while True:
            answer = self._receive()
            if answer.get('id') == number:
                assert 'error' not in answer, (method, answer['error'])
                return answer['result']
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b'\0' not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], _PATIENCE_S)
            more = os.read(self._read, 1 << 20) if ready else b''
            if not more:
                self.close()
                said = self._said.read_text(errors='replace')
                raise RuntimeError(f'the browser does not answer; it said: {said[-2000:]}')
            self._buffer += more
        message, self._buffer = self._buffer.split(b'\0', 1)
        return json.loads(message)

    def wait_for(self, method: str) -> None:
        """Wait for an event that has not come yet."""
        while True:
            event = self._receive()
            self.events.append(event)
            if event.get('method') == method:
                return

    def open(self, path: Path) -> None:
        """Load a file, from a clean list of events."""
        self.events.clear()
        self.call('Page.navigate', url=path.as_uri())
        if not any(one.get('method') == 'Page.loadEventFired' for one in self.events):
            self.wait_for('Page.loadEventFired')
        self.settle()

    def settle(self) -> None:
        """Wait until the page has drawn what it has been told."""
        self.run('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise's when it is kept."""
        found = self.call('Runtime.evaluate', expression=script, returnByValue=True,
                          awaitPromise=True)
        assert 'exceptionDetails' not in found, found['exceptionDetails']
        return found['result'].get('value')

    def press(self, key: str, shift: bool = False) -> None:
        """Press and release a key, as a person does."""
        common = {'key': key, 'code': 'Space' if key == ' ' else key,
                  'windowsVirtualKeyCode': _KEYS[key], 'modifiers': 8 if shift else 0}
        text = {'Enter': '\r', ' ': ' '}.get(key)
        self.call('Input.dispatchKeyEvent', type='keyDown' if text else 'rawKeyDown',
                  **common, **({'text': text} if text else {}))
        self.call('Input.dispatchKeyEvent', type='keyUp', **common)
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the left mouse button."""
        for kind in ('mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)
        self.settle()

    def set_screen(self, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
        """Show the page on a screen of this size, in light or dark."""
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=1, mobile=phone)
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'},
            {'name': 'prefers-reduced-motion', 'value': 'reduce'}])
        self.settle()

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        return [one['params']['request']['url'] for one in self.events
                if one.get('method') == 'Network.requestWillBeSent']

    def complaints(self) -> list[Any]:
        """What went to the console or was thrown since the page was opened."""
        kinds = ('Runtime.consoleAPICalled', 'Runtime.exceptionThrown', 'Log.entryAdded')
        return [one['params'] for one in self.events if one.get('method') in kinds]

    def close(self) -> None:
        """End the browser and all of its processes."""
        for one in (self._write, self._read):
            try:
                os.close(one)
            except OSError:
                pass  # closed before
        if _gone(self._process.poll, 5.0):
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended meanwhile
        self._process.wait()


def _gone(poll: Callable[[], int | None], patience_s: float) -> bool:
    until = time.monotonic() + patience_s
    while poll() is None and time.monotonic() < until:
        select.select([], [], [], 0.02)
    return poll() is not None

"""Drives Debian's Chromium over its debugging pipe: pages, clicks, keys, pictures. No packages."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowUp": (38, ""), "ArrowDown": (40, ""),
        "Tab": (9, "")}
MODIFIERS = {"Alt": 1, "Control": 2, "Shift": 8}
PATIENCE = 10  # seconds that a wait takes before it fails; nothing waits that long when all is well


def program():
    return shutil.which("chromium")


class Browser:
    """One Chromium process with a profile of its own."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="orrery-web-", ignore_cleanup_errors=True)
        theirs_in, self.out = os.pipe()
        self.inward, theirs_out = os.pipe()
        command = [program(), *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh", *command],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest = b""
        self.count = 0
        self.events = []

    def call(self, method, session=None, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        wanted = self.count
        limit = time.monotonic() + 30
        while True:
            answer = self.read(limit)
            if answer.get("id") != wanted:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def read(self, limit):
        while b"\0" not in self.rest:
            if not select.select([self.inward], [], [], max(0, limit - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self.inward, 1 << 20)
            if not data:
                raise RuntimeError("Chromium ended")
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inward)
        self.profile.cleanup()


class Page:
    """A tab in a context of its own: no storage is shared with other pages, but by `context`."""

    def __init__(self, browser, url, context=None, width=1280, height=800):
        self.browser = browser
        self.context = context or browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank",
                              browserContextId=self.context)["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target,
                                    flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        self.open(url)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def prefers(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def reload(self):
        self.js("window.old = true")
        self.call("Page.reload")
        self.wait("!window.old && document.readyState === 'complete'")

    def js(self, expression):
        """The value of an expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True, userGesture=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression):
        """Waits until the expression is true, and returns its value."""
        limit = time.monotonic() + PATIENCE
        ask = f"Promise.resolve({expression}).then((it) => it instanceof Node || it)"
        while True:
            try:
                value = self.js(ask)
            except RuntimeError as error:  # the page may be between two documents
                value, problem = None, str(error)
            else:
                problem = f"is {value!r}"
            if value:
                return value
            if time.monotonic() > limit:
                raise AssertionError(f"waited for {expression}: {problem}")
            time.sleep(0.02)

    def find(self, selector):
        """(x, y) of the middle of the first element of this selector that is visible."""
        return self.wait(f"""(() => {{
            for (const e of document.querySelectorAll({json.dumps(selector)})) {{
                e.scrollIntoView({{block: "nearest"}});
                const r = e.getBoundingClientRect();
                if (r.width && r.height) return [r.x + r.width / 2, r.y + r.height / 2];
            }}
        }})()""")

    def hover(self, selector):
        x, y = self.find(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector):
        x, y = self.find(selector)
        for kind, clicks in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      clickCount=clicks)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, combination):
        """For example "Enter", "Control+Shift+O"."""
        *modifiers, key = combination.split("+")
        code, text = KEYS.get(key, (ord(key[0].upper()), key if not modifiers else ""))
        bits = sum(MODIFIERS[name] for name in modifiers)
        common = {"modifiers": bits, "key": key, "windowsVirtualKeyCode": code,
                  "code": key if key in KEYS else f"Key{key.upper()}"}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def choose_file(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def downloads_to(self, folder):
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder),
                          browserContextId=self.context)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def seen(self, method):
        """The parameters of this page's events of that name so far."""
        self.call("Runtime.evaluate", expression="0")  # takes in what is still in the pipe
        return [event["params"] for event in self.browser.events
                if event.get("method") == method and event.get("sessionId") == self.session]

    def requested(self):
        return [event["request"]["url"] for event in self.seen("Network.requestWillBeSent")]

    def complaints(self):
        """What went wrong by the page's own doing: exceptions, and what its policy forbade."""
        thrown = [event["exceptionDetails"].get("exception", {}).get("description", "exception")
                  for event in self.seen("Runtime.exceptionThrown")]
        logged = [event["entry"]["text"] for event in self.seen("Log.entryAdded")
                  if event["entry"]["source"] != "network" and event["entry"]["level"] == "error"]
        return thrown + logged

    def to_front(self):
        self.call("Page.bringToFront")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

"""A headless Chromium that the tests of pages drive: what it shows, what it says, what it asks for."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

DESKTOP, PHONE = (1400, 900), (390, 844)
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
PROGRAMS = ("chromium", "chromedriver")


def missing() -> str:
    """What a test in a browser lacks here, or nothing."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no {' and no '.join(absent)}: apt-get install chromium chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no selenium: pip install '.[dev]'"
    return ""


needs_chromium = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


class Chromium:
    """One browser with a profile of its own in ``folder``; ``close`` ends it."""

    def __init__(self, folder: Path) -> None:
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options, service)
        self.driver.get("about:blank")
        self.requests()  # the browser's own first page

    def evaluate(self, size: tuple[int, int], dark: bool) -> None:
        """Be a screen of this size whose reader likes it dark or light."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, page: Path) -> None:
        """Load a page of neuro report."""
        self.driver.get(page.as_uri())
        self.settle()

    def settle(self) -> None:
        """Two frames later."""
        self.driver.execute_async_script(
            "requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(arguments[0]), 150))"
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """What the console said since last asked, from warnings on."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> set[str]:
        """Addresses that were asked for since last asked, aside from data in the page itself."""
        sent = (json.loads(line["message"])["message"] for line in self.driver.get_log("performance"))
        found = {line["params"]["request"]["url"] for line in sent if line["method"] == "Network.requestWillBeSent"}
        return {url for url in found if not url.startswith(("data:", "blob:"))}

    def picture(self, path: Path) -> None:
        """The whole page as it looks now."""
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self.driver.quit()

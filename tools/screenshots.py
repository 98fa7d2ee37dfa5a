"""A picture of a page, as a browser shows it. Needs playwright and Chromium.

usage: python tools/screenshots.py REPORT.html|ADDRESS OUT.png [--dark] [--width W] [--height H] [--hash STATE]
       [--at SELECTOR | --only SELECTOR] [--do SELECTOR[=TEXT]] ...

Without --height the picture has the whole page. STATE is what stands behind the # of the page's address. Before the
picture is taken, each --do is done in turn: TEXT is written into a part of the page, or, without one, the part clicked.
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

_MARGIN = 16
_BOX = "element => { const { x, y, width, height } = element.getBoundingClientRect(); return { x, y, width, height }; }"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Opens the page, waits until it has drawn itself, and takes the picture."""
    parser = argparse.ArgumentParser(description="Takes a picture of a page in a browser.")
    parser.add_argument("page", help="a file, or the address of a service")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--dark", action="store_true", help="as for people who prefer dark pages")
    parser.add_argument("--width", type=int, default=1440, help="of the window")
    parser.add_argument("--height", type=int, help="of the window; without it, the whole page")
    parser.add_argument("--hash", default="", metavar="STATE", help="what stands behind the # of the address")
    parser.add_argument(
        "--do", action="append", default=[], metavar="SELECTOR[=TEXT]", help="click it, or write into it"
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--only", metavar="SELECTOR", help="the part of the page that is in the picture")
    part.add_argument("--at", metavar="SELECTOR", help="the part of the page to begin with, such as #sentences")
    options = parser.parse_args()
    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        print(f"screenshots: expected one of {', '.join(BROWSERS)}, found none; on Debian: apt install chromium")
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": options.width, "height": options.height or 900},
            color_scheme="dark" if options.dark else "light",
            device_scale_factor=2 if options.width < 600 else 1,
        )
        page.on("pageerror", lambda error: print(f"screenshots: {error}", file=sys.stderr))
        address = options.page if "://" in options.page else Path(options.page).resolve().as_uri()
        page.goto(f"{address}#{options.hash}", wait_until="networkidle")
        for step in options.do:
            selector, is_text, text = step.partition("=")
            if is_text:
                page.fill(selector, text)
            else:
                page.click(selector)
            page.wait_for_load_state("networkidle")
        page.evaluate("async () => { await window.relaSettled?.(); }")
        if options.at:
            page.eval_on_selector(options.at, "element => element.scrollIntoView()")
        if options.only:
            box = page.eval_on_selector(options.only, _BOX)
            page.screenshot(
                path=options.picture,
                full_page=True,
                clip={
                    "x": box["x"] - _MARGIN,
                    "y": box["y"] - _MARGIN,
                    "width": box["width"] + 2 * _MARGIN,
                    "height": box["height"] + 2 * _MARGIN,
                },
            )
        else:
            page.screenshot(path=options.picture, full_page=options.height is None)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

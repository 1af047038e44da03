"""The site of docs/ in Debian's chromium: it is rendered anew, and read as a visitor reads it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.browser import ELEMENT, ENTER, TAB, Browser
from tests.bench.engine_process import REPOSITORY
from tests.browser.looking import violations

PAGES = (
    "index",
    "tutorial",
    "experiment",
    "tools",
    "library/rigol_dp832",
    "library",
    "architecture",
)
SIZES = ((390, 844), (1440, 900), (2560, 1440))
SCHEMES = ("light", "dark")
SEARCH = "return [...document.querySelectorAll('body > div')].find((one) => one.shadowRoot)"
IN_SIGHT = (
    "const box = arguments[0].getBoundingClientRect(); const seen = document.elementFromPoint("
    "box.x + box.width / 2, box.y + box.height / 2); "
    "return box.width > 0 && (arguments[0] === seen || arguments[0].contains(seen))"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` renders it."""
    place: Path = tmp_path_factory.mktemp("rendered") / "site"
    made = subprocess.run(
        [sys.executable, "docs/render.py", str(place)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return place


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"],
        cwd=site,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        told = re.search(r"port (\d+)", server.stdout.readline())
        assert told is not None
        yield f"http://127.0.0.1:{told[1]}"
        server.terminate()


@pytest.fixture(autouse=True)
def quiet(browser: Browser) -> Iterator[None]:
    """No page has complained of anything."""
    browser.open("about:blank")
    browser.size(1440, 900)
    browser.scheme("light")
    browser.complaints()
    browser.requests()
    yield
    assert browser.complaints() == []


def is_in_sight(browser: Browser, selector: str) -> bool:
    """Whether one can read it, and press it, where the page is scrolled to now."""
    element = {ELEMENT: browser.element(selector)}
    return bool(browser.run(IN_SIGHT, element))


def search_button(width: int) -> str:
    return ".md-search__button" if width > 600 else "label.md-header__button[for=__search]"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_page_fits_every_window_light_and_dark_with_its_name_in_sight_and_excludes_nobody(
    browser: Browser, served: str, page: str, width: int, height: int
) -> None:
    browser.size(width, height)
    for scheme in SCHEMES:
        browser.scheme(scheme)
        browser.open(f"{served}/{page}.html")
        wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{scheme}: {wide} pixels too wide"
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert (colour == "rgb(255, 255, 255)") is (scheme == "light"), f"{scheme}: {colour}"
        assert violations(browser) == [], scheme
    look_for_name_and_search(browser, width)
    outside = [
        url for url in browser.requests() if not url.startswith((served, "data:", "blob:", "about"))
    ]
    assert outside == []


def look_for_name_and_search(browser: Browser, width: int) -> None:
    """Wherever the page is scrolled to."""
    for where in ("0", "document.body.scrollHeight / 2", "document.body.scrollHeight"):
        browser.run(f"scrollTo({{top: {where}, behavior: 'instant'}})")
        name = ".md-header__title .md-header__topic"
        assert is_in_sight(browser, name), where
        assert browser.run(f"return document.querySelector('{name}').innerText") == "edged"
        assert is_in_sight(browser, search_button(width)), where


@pytest.mark.parametrize("width", [390, 1440])
def test_the_search_finds_what_is_asked_and_opens_its_page(
    browser: Browser, served: str, width: int
) -> None:
    browser.size(width, 900)
    browser.open(f"{served}/tutorial.html")
    look_for_lockout(browser, width)
    # The theme names what was found by its title alone, where its text stands, too.
    assert {fault for fault, _ in violations(browser)} <= {"label-content-name-mismatch"}
    browser.press(ENTER)
    browser.wait(lambda: "tutorial.html" not in browser.run("return location.href"))
    browser.wait(lambda: browser.run("return document.readyState") == "complete")
    assert browser.run("return location.href").startswith(served)
    assert "lockout" in browser.run("return document.querySelector('article').innerText").lower()


def test_the_search_works_from_a_directory_too(browser: Browser, site: Path) -> None:
    browser.open(f"{site.as_uri()}/index.html")
    look_for_lockout(browser, 1440)
    outside = [url for url in browser.requests() if url.startswith(("http", "ws"))]
    assert outside == []


def look_for_lockout(browser: Browser, width: int) -> None:
    browser.wait(lambda: browser.run(SEARCH))
    browser.click(search_button(width))
    focused = f"{SEARCH}.shadowRoot.activeElement?.tagName"
    browser.wait(lambda: browser.run(focused) == "INPUT")
    browser.press(*"lockout")
    found = f"{SEARCH}.shadowRoot.querySelector('[role=option]')?.innerText"
    browser.wait(lambda: "lockout" in (browser.run(found) or "").lower())


def test_the_button_of_a_block_of_code_copies_it(browser: Browser, served: str) -> None:
    browser.devtools(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        origin=served,
    )
    browser.open(f"{served}/tutorial.html")
    browser.wait(lambda: browser.run("return document.querySelector('.md-code__button')"))
    shown = browser.run("return document.querySelector('pre > code').innerText")
    browser.click(".md-code__button")
    copied = "const done = arguments[0]; navigator.clipboard.readText().then(done, (e) => done(''))"
    browser.wait(lambda: browser.run_later(copied).strip() == shown.strip())
    assert shown.startswith("edged engine --sim")


def test_the_keyboard_reaches_the_content_at_once_and_everything_in_turn(
    browser: Browser, served: str
) -> None:
    browser.open(f"{served}/tutorial.html")
    browser.press(TAB)
    assert browser.run("return document.activeElement.innerText.trim()") == "Skip to content"
    browser.press(ENTER)
    browser.press(TAB)
    assert browser.run("return document.activeElement.closest('article') !== null")
    browser.open(f"{served}/tutorial.html")
    reached = set()
    for _ in range(80):
        browser.press(TAB)
        reached.add(
            browser.run(
                "const it = document.activeElement; return it.closest('pre') ? "
                "(it.tagName === 'CODE' ? 'code' : 'copy') : it.innerText.trim()"
            )
        )
    assert {"Search", "Guides", "Reference", "Developers", "An experiment", "copy"} <= reached


def test_code_that_is_wider_than_a_phone_is_scrolled_by_the_keyboard(
    browser: Browser, served: str
) -> None:
    browser.size(390, 844)
    browser.open(f"{served}/tutorial.html")
    wide = (
        "[...document.querySelectorAll('pre > code')].filter((e) => e.scrollWidth > e.clientWidth)"
    )
    assert browser.wait(lambda: browser.run(f"return {wide}.length"))
    assert browser.wait(lambda: browser.run(f"return {wide}.every((e) => e.tabIndex === 0)"))


@pytest.mark.parametrize("width", [390, 900])
def test_the_menu_of_a_narrow_window_is_opened_and_used_by_the_keyboard(
    browser: Browser, served: str, width: int
) -> None:
    browser.size(width, 844)
    browser.open(f"{served}/tutorial.html")
    browser.wait(lambda: browser.run("return document.querySelector('[aria-label=Menu]')"))
    go_to(browser, "it.getAttribute('aria-label') === 'Menu'")
    browser.press(ENTER)
    go_to(browser, "it.matches('nav a') && it.innerText.trim() === 'An experiment'")
    assert browser.run(IN_SIGHT, {ELEMENT: browser.run("return document.activeElement")[ELEMENT]})
    browser.press(ENTER)
    browser.wait(lambda: "experiment.html" in browser.run("return location.href"))


def test_a_menu_that_is_closed_takes_no_focus(browser: Browser, served: str) -> None:
    browser.size(390, 844)
    browser.open(f"{served}/tutorial.html")
    for _ in range(30):
        browser.press(TAB)
        menu = "return document.activeElement.closest('.md-sidebar--primary') === null"
        assert browser.run(menu)


def go_to(browser: Browser, what: str) -> None:
    """Press Tab until ``it`` has the focus."""
    for _ in range(60):
        browser.press(TAB)
        if browser.run(f"const it = document.activeElement; return {what}"):
            return
    pytest.fail(f"Tab never comes to {what}")

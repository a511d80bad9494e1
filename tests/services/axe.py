"""Findings of axe and of keyboard checks on a page, in a real Chromium."""

import re
from dataclasses import dataclass, field

from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from elevata.bootstrap.places import TEST_VENDOR

AXE = TEST_VENDOR / "axe" / "axe.min.js"
# WCAG 2.2 A and AA, and axe's rules of good practice.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
GRAVE = ("serious", "critical")
_ANSWERS = re.compile(r"status of (409|422)")

_RUN = """async only => {
    const found = await axe.run(document, {runOnly: only, resultTypes: ["violations"]});
    return found.violations.map(one => [one.impact, one.id, one.nodes.slice(0, 4).map(
        node => node.target.join(" ") + ": " + node.html.slice(0, 160) + " " + node.any.concat(node.all).map(
            check => check.message).join("; ").slice(0, 200))]);
}"""

# Visible controls, except those in groups with arrow-key navigation.
_USABLE = """
    const usable = () => [...document.querySelectorAll(
        "a[href], button, input, select, textarea, summary, [tabindex]")].filter(one => {
        if (one.disabled || one.type === "hidden" || one.closest("[inert], fieldset:disabled")) return false;
        const closed = one.closest("details:not([open])");
        if (closed && !(one.tagName === "SUMMARY" && one.parentElement === closed)) return false;
        return one.checkVisibility({visibilityProperty: true});
    });
    // A live part may be replaced meanwhile: what is at the same place by the same name is the same.
    const same = one => [one.tagName, one.id, one.getAttribute("href"), one.name, one.textContent].join(" ");
    const named = one => one.tagName.toLowerCase() + (one.id ? "#" + one.id : "") + " " +
        (one.getAttribute("aria-label") || one.textContent || one.name || "").trim().replace(/\\s+/g, " ").slice(0, 40);
"""
_UNSEEN_FOCUS = (
    "() => {"
    + _USABLE
    + """
    const bar = document.querySelector(".topbar"), found = [];
    for (const one of usable()) {
        if (one.tabIndex < 0 && /^(MAIN|SECTION|DIV)$/.test(one.tagName)) continue;
        one.focus();
        if (document.activeElement !== one) {
            if (one.tabIndex >= 0) found.push("takes no focus: " + named(one));
            continue;
        }
        const style = getComputedStyle(one), box = one.getBoundingClientRect();
        const marks = [one, ...one.querySelectorAll("*")].some(part => {
            const look = getComputedStyle(part);
            const drawn = part instanceof SVGElement && parseFloat(look.strokeWidth) >= 2;
            return drawn || look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0;
        });
        if (!marks && style.boxShadow === "none" && !one.matches(".skip-link"))
            found.push("no visible focus: " + named(one));
        if (bar && !bar.contains(one) && box.height && box.bottom <= bar.getBoundingClientRect().bottom
            && getComputedStyle(bar).position === "sticky" && !one.matches(".skip-link"))
            found.push("hidden below the top bar: " + named(one));
    }
    return found;
}"""
)
_WATCH = (
    "() => {"
    + _USABLE
    + """
    window.__visited = new Set();
    window.__rounds = 0;
    document.addEventListener("focusin", event => {
        const stop = same(event.target);
        window.__first ??= stop;
        if (stop === window.__first) window.__rounds++;
        window.__visited.add(stop);
    });
    document.activeElement && document.activeElement.blur();
    // The parts of a date are stops of their own.
    const stops = one => /^(date|time|month|week)/.test(one.type || "") ? 8 : 1;
    return usable().filter(one => one.tabIndex >= 0).reduce((sum, one) => sum + stops(one), 0);
}"""
)
_UNREACHED = (
    "() => {"
    + _USABLE
    + """
    return usable().filter(one => one.tabIndex >= 0 && one.type !== "radio"
        && !window.__visited.has(same(one))).map(named);
}"""
)

# Two frames, because the first may be in progress already.
_DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(window.__rounds))))"
_MOST_STOPS = 3000


def sideways(page: Page) -> int:
    """Return the number of pixels by which the page scrolls sideways."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def accessible_faults(page: Page, *, rules: list[str] | None = None) -> list[str]:
    """Return axe's serious and critical findings, of ``rules`` or of all rules."""
    only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": RULES}
    violations = page.evaluate(_RUN, only)
    return [f"{impact} {rule}: {node}" for impact, rule, nodes in violations if impact in GRAVE for node in nodes]


def unseen_focus(page: Page) -> list[str]:
    """Return the elements that cannot take the focus, do not show it, or are hidden with it."""
    page.keyboard.press("Tab")
    return page.evaluate(_UNSEEN_FOCUS)


def unreached_by_tab(page: Page) -> list[str]:
    """Return the elements that the Tab key does not reach in one pass through the page.

    Some pages draw elements when the focus approaches, and remove others. If any element is missing, further passes
    wait for the drawing after each key, until a whole pass reaches no new element.
    """
    for _ in range(page.evaluate(_WATCH) + 3):
        page.keyboard.press("Tab")
    visited = 0
    while (missing := page.evaluate(_UNREACHED)) and (reached := page.evaluate("window.__visited.size")) > visited:
        visited = reached
        _press_through_page(page)
    return missing


def _press_through_page(page: Page) -> None:
    """Press Tab until the first stop has the focus again, at most as often as the longest page may need."""
    rounds = page.evaluate("window.__rounds")
    for _ in range(_MOST_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate(_DRAWN) > rounds:
            return


@dataclass
class Complaints:
    """Error messages of the browser while pages are shown, including violations of the content policy.

    Responses with 409 and 422 are expected answers to forms, not errors.
    """

    messages: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> "Complaints":
        context.on("console", self._record)
        context.on("weberror", lambda problem: self.messages.append(str(problem.error)))
        return self

    def _record(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not _ANSWERS.search(message.text):
            self.messages.append(f"{message.text} {message.location.get('url', '')}")

    def take(self) -> list[str]:
        messages, self.messages = self.messages, []
        return messages

/*
 * What scrolls sideways (long lines of code, wide tables, drawings) is reached by the keyboard, too; the
 * theme leaves that out where it believes that there is no mouse. The buttons of a block of code are no
 * landmark: a page has dozens of them. The search is a house of its own, and its grey is too light to read.
 * The menu of a narrow window is labels of check boxes that nobody sees: here they are buttons.
 */
(() => {
  const darker = new CSSStyleSheet();
  darker.replaceSync("menu { color: rgb(var(--color-foreground) / .7) !important; }");
  const put = (one, name, value) => {
    if (one.getAttribute(name) !== value) {
      one.setAttribute(name, value);
    }
  };
  const opener = () => {
    const label = document.querySelector("label.md-header__button[for=__drawer]");
    if (label) {
      const button = document.createElement("button");
      button.className = label.className;
      button.type = "button";
      button.ariaLabel = "Menu";
      button.append(...label.childNodes);
      button.onclick = () => document.getElementById("__drawer").click();
      label.replaceWith(button);
    }
  };
  const press = (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      event.stopPropagation();
      event.currentTarget.click();
    }
  };
  const mend = () => {
    opener();
    for (const one of document.querySelectorAll(".md-header__button[for=__search], .md-nav :is(.md-nav__title, .md-nav__link)[for]")) {
      put(one, "tabindex", "0");
      one.onkeydown = press;
    }
    for (const one of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .wide")) {
      if (one.scrollWidth > one.clientWidth) {
        put(one, "tabindex", "0");
      }
    }
    for (const one of document.querySelectorAll(".md-code__nav")) {
      put(one, "role", "none");
    }
    for (const { shadowRoot } of document.querySelectorAll("body > div")) {
      if (shadowRoot && !shadowRoot.adoptedStyleSheets.includes(darker)) {
        shadowRoot.adoptedStyleSheets.push(darker);
      }
    }
  };
  const watched = { subtree: true, childList: true, attributeFilter: ["tabindex"] };
  new MutationObserver(mend).observe(document.body, watched);
  new ResizeObserver(mend).observe(document.body);
})();

// Elements from plain data, and the least change that makes what is shown equal to them. Texts of
// instruments and clients only ever become text nodes: nothing here reads HTML.

// Characters that turn the direction of a line: what is behind one reads as if it stood elsewhere.
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected"]);

// h("button", {class: "a", on: {click: f}, key: "k"}, "text", [more], null)
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  element.key = props?.key;
  element.handlers = {};
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === "on") for (const [type, run] of Object.entries(value)) listen(element, type, run);
    else if (PROPERTIES.has(name)) element[name] = value;
    else if (name !== "key" && value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? inPlaceOf(child) : document.createTextNode(String(child).replace(TURNS, "")));
  }
  return element;
}

// An element that is its maker's own (`isOwn`) is not taken out of what is shown, which would end a
// drag in it and lose its focus; a mark says where it belongs.
function inPlaceOf(child) {
  if (!child.isOwn) return child;
  const mark = document.createComment("");
  mark.real = child;
  return mark;
}

function settle(node) {
  for (const child of [...node.childNodes]) {
    if (child.real) child.replaceWith(child.real);
    else settle(child);
  }
}

function listen(element, type, run) {
  if (!(type in element.handlers)) {
    element.addEventListener(type, (event) => element.handlers[type]?.(event));
  }
  element.handlers[type] = run;
}

// Make the children of an element equal to these; what is the same keeps its focus and its scroll.
// An element that isOwn is left to whoever made it.
export function fill(parent, children) {
  const wanted = children.flat(Infinity).filter((child) => child instanceof Node);
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let at = parent.firstChild;
  for (const next of wanted) {
    const own = next.real ?? (next.isOwn ? next : null);
    if (own) {
      if (own === at) at = at.nextSibling;
      else parent.insertBefore(own, at);
      continue;
    }
    let old = next.key === undefined ? at : keyed.get(next.key);
    if (old && !isSame(old, next)) old = undefined;
    if (old === undefined || old === null) {
      parent.insertBefore(next, at);
      settle(next);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    update(old, next);
  }
  while (at) {
    const rest = at.nextSibling;
    at.remove();
    at = rest;
  }
}

function isSame(old, next) {
  return old.nodeName === next.nodeName && old.key === next.key && !old.isOwn;
}

function update(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  // What a person has opened stays open.
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const [type, run] of Object.entries(next.handlers ?? {})) listen(old, type, run);
  for (const name of ["disabled", "hidden"]) {
    if (name in next && old[name] !== next[name]) old[name] = next[name];
  }
  fill(old, [...next.childNodes]);
}

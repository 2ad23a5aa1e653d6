// Renewing parts of the page in place, so that focus and selection stay where they are.

import { $, localize } from "./text.js";

const KEPT = new Set(["aria-selected", "aria-disabled", "tabindex", "open"]);

export function renew(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = template.content.firstElementChild;
  localize(template.content);
  if (element) patch(element, fresh);
  return fresh;
}

function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (!(KEPT.has(name) && old.hasAttribute(name)) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  patchChildren(old, fresh);
  // A field that was typed into no longer heeds its attribute.
  if (["SELECT", "INPUT"].includes(old.nodeName)) old.value = fresh.value;
}

// A child stays the element that it is as long as it stands for the same thing: what comes or goes beside it must not
// make the button that a reader is about to press another's.
function patchChildren(old, fresh) {
  let next = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    const same = findSame(next, node);
    if (!same) {
      old.insertBefore(node, next);
      continue;
    }
    while (next !== same) next = removed(next);
    next = same.nextSibling;
    patch(same, node);
  }
  while (next) next = removed(next);
}

function removed(node) {
  const { nextSibling } = node;
  node.remove();
  return nextSibling;
}

const identity = (node) => node.dataset?.key ?? node.id;

// Text may stand anywhere: only the one that is next is the same.
function findSame(from, node) {
  const isSame = (other) => other.nodeName === node.nodeName && identity(other) === identity(node);
  if (node.nodeType !== Node.ELEMENT_NODE) return from && isSame(from) ? from : null;
  let found = from;
  while (found && !isSame(found)) found = found.nextSibling;
  return found;
}

// ---- Focus: who is at the keyboard stays where they are, or, if that is gone, next to it

const isUsable = (element) => element?.isConnected && element.checkVisibility();

// An element, its likes in the same panel (those that follow it first), and where to go if none of them is left.
export function placeOf(element) {
  const panel = element.closest("section, header");
  const isOfGrid = element.closest("#grid, #selection");
  const kindOf = (other) => `${other.parentElement?.nodeName} ${other.nodeName} ${other.dataset.action}`;
  const inside = panel && !isOfGrid ? [...panel.querySelectorAll(element.nodeName)] : [element];
  // Who has acknowledged one incident must not stand on the button of another: the row says what it has become.
  const { incident } = element.dataset;
  const row = incident && element.closest("li");
  const likes = inside.filter((other) => kindOf(other) === kindOf(element) && other.dataset.incident === incident);
  const at = likes.indexOf(element);
  return {
    element,
    likes: [...likes.slice(at), ...likes.slice(0, at).reverse()],
    refuges: () => [
      row,
      isOfGrid && document.querySelector('#grid td[tabindex="0"]'),
      element.id === "backfill-range" && $("chart"),
      panel?.querySelector(".head [data-action]"),
      panel,
    ],
  };
}

export function goTo(place) {
  const found = [...place.likes, ...place.refuges()].find((element) => element && isUsable(element));
  if (found?.nodeName === "SECTION") found.tabIndex = -1;
  found?.focus();
}

export function keepFocus(change) {
  const focused = document.activeElement;
  const place = focused && focused !== document.body ? placeOf(focused) : null;
  change();
  if (place && !(document.activeElement === focused && isUsable(focused))) goTo(place);
}

// The view is in the URL: what changes it, and who hears of it.

import { query } from "./text.js";

let arrive = () => {};
export const onArrival = (listener) => { arrive = listener; };

export function go(url) {
  history.pushState(null, "", url);
  arrive();
}

export function changed(changes) {
  const parameters = query();
  for (const [name, value] of Object.entries(changes)) value ? parameters.set(name, value) : parameters.delete(name);
  return parameters.size ? `${location.pathname}?${parameters}` : location.pathname;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-view]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  // What a link changes is changed where the reader is by now: the link itself may be a moment behind.
  go(link.dataset.change ? changed(Object.fromEntries(new URLSearchParams(link.dataset.change))) : link.getAttribute("href"));
});

addEventListener("popstate", () => arrive());

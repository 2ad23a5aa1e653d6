// Live updates: what the server tells is shown in place; a page that hears nothing does not call itself live.

import { keepFocus, renew } from "./renew.js";
import { listen } from "./stream.js";
import { $, clock, say, zoned } from "./text.js";

// What else a page does with what it is told.
const listeners = [];
export const onPage = (listener) => listeners.push(listener);

let events;
let silence;
let heardAt = Date.now();
let level = $("verdict")?.classList[1];

// The server says something every few seconds. If it does not, it hangs, or this machine has slept and the
// connection is a dead one: what the page shows is old, and must not call itself live.
function watch() {
  clearTimeout(silence);
  silence = setTimeout(() => { lose(); connect(); }, 15000);
}

function hear() {
  heardAt = Date.now();
  watch();
}

function lose() {
  setLive("lost", say("live", "lost", { time: clock(heardAt, "second") }));
}

export function connect() {
  watch();
  events?.close();
  events = listen({
    beat: hear,
    page(event) {
      hear();
      setLive("connected", say("live", "connected"));
      show(JSON.parse(event.data));
    },
    trouble(event) {
      hear();
      setLive("trouble", say("live", "trouble", { reason: zoned(JSON.parse(event.data).detail) }));
    },
  });
  events.onerror = () => {
    lose();
    // After an answer that is no stream the browser gives up; we do not.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

function setLive(state, text) {
  const live = $("live");
  if (live.dataset.state === state && $("live-text").textContent === text) return;
  live.dataset.state = state;
  $("live-text").textContent = text;
}

// The parts of the page that have changed, as an event or the answer to an action has them.
export function show(page) {
  document.title = page.title;
  keepFocus(() => {
    for (const [id, html] of Object.entries(page.parts)) if ($(id)) renew($(id), html);
    for (const listener of listeners) listener(page);
  });
  const said = $("culprits") ?? $("verdict-sentence");
  if (page.level !== level && said) $("announcer").textContent = said.textContent;
  level = page.level;
}

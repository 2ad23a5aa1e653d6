// The stream of events of a page. It is asked for while the browser still reads and draws the page: what comes
// before somebody listens is kept.

const KINDS = ["page", "trouble", "beat"];

// Whose page it is; none on the wall.
export const metric = () => (location.pathname.startsWith("/targets/") ? decodeURIComponent(location.pathname.slice("/targets/".length)) : null);

let early;
let heard = [];
const keep = (event) => heard.push(event);

export function begin() {
  early = open();
  for (const kind of KINDS) early.addEventListener(kind, keep);
}

// The stream that was begun, or a new one; `listeners` are called with what it says, by kind.
export function listen(listeners) {
  const events = early && early.readyState !== EventSource.CLOSED ? early : open();
  for (const kind of KINDS) {
    events.removeEventListener(kind, keep);
    events.addEventListener(kind, listeners[kind]);
  }
  if (events === early) for (const event of heard) listeners[event.type](event);
  [early, heard] = [undefined, []];
  return events;
}

// What the page shows, as the server is asked for it.
export function viewed() {
  const parameters = new URLSearchParams(location.search);
  if (metric()) parameters.set("metric", metric());
  parameters.set("lang", document.documentElement.lang);
  return parameters;
}

function open() {
  return new EventSource(`/api/v1/live?${viewed()}`);
}

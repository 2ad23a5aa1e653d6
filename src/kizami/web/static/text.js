// What every module of the page says and how: words, instants, numbers. Whatever the server says is either HTML that
// it has escaped itself or text that is set as text.

export const $ = (id) => document.getElementById(id);
export const words = JSON.parse(document.body.dataset.words);
export const query = () => new URLSearchParams(location.search);

export function say(section, key, values = {}) {
  const phrase = (values.n === 1 && words[section][`${key}_one`]) || words[section][key];
  return fill(phrase, values);
}

export function fill(phrase, values) {
  return phrase.replace(/\{(\w+)\}/g, (_, name) => (name === "n" ? values.n.toLocaleString("en") : values[name]));
}

export function text(tag, content, className = "") {
  const element = document.createElement(tag);
  element.textContent = content;
  if (className) element.className = className;
  return element;
}

// ---- Time, in UTC, in the reader's own zone or in a named one

const own = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

function isZone(name) {
  try {
    return Boolean(new Intl.DateTimeFormat("en", { timeZone: name }));
  } catch {
    return false;
  }
}

const kept = localStorage.getItem("zone") ?? "utc";
let zone = ["utc", "local"].includes(kept) || isZone(kept) ? kept : "utc";

export const isUtc = () => zone === "utc";
export const chosenZone = () => zone;
// Its name, as the server and the browser know it.
export const zoneId = () => ({ utc: "UTC", local: own() })[zone] ?? zone;

export function setZone(chosen) {
  zone = chosen;
  localStorage.setItem("zone", zone);
}

// The instant at which the zone's clock shows that; where it is set forward over that, the one after.
export function instantAt(...parts) {
  const wall = Date.UTC(...parts);
  const ahead = (moment) => Date.parse(`${clock(moment, "full").replace(" ", "T")}Z`) - Math.floor(moment / 1000) * 1000;
  const first = wall - ahead(wall);
  const second = wall - ahead(first);
  return ahead(second) === ahead(first) || wall - ahead(second) === second ? second : Math.max(first, second);
}

// "Local" says which: a page that is shown on a wall may be anywhere.
export function zoneName() {
  const named = own();
  const ahead = -new Date().getTimezoneOffset();
  const [hours, minutes] = [Math.abs(ahead) / 60, Math.abs(ahead) % 60].map((part) => String(Math.trunc(part)).padStart(2, "0"));
  return `${named} (UTC${ahead ? `${ahead < 0 ? "-" : "+"}${hours}:${minutes}` : ""})`;
}

// To make one takes longer than to show hundreds of times by it.
const formats = new Map();

export function clock(instant, style) {
  const key = `${style} ${zone}`;
  if (!formats.has(key)) formats.set(key, clockFormat(style));
  const shown = formats.get(key).format(new Date(instant)).replace(",", "");
  return style === "past-hour" ? shown.slice(2) : shown;
}

// What the server or an API says, with its instants in the chosen zone.
export const zoned = (said) => said.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (moment) => (Number.isNaN(Date.parse(moment)) ? moment : clock(moment, "full")));

function clockFormat(style) {
  const options = { hourCycle: "h23", hour: "2-digit", minute: "2-digit" };
  if (style.startsWith("full")) Object.assign(options, { year: "numeric", month: "2-digit", day: "2-digit" });
  if (style === "second" || style === "full") options.second = "2-digit";
  options.timeZone = zoneId();
  return new Intl.DateTimeFormat("sv-SE", options); // the Swedish form of a time is that of ISO 8601
}

export function localize(root) {
  for (const time of root.querySelectorAll("time[data-clock]")) {
    time.textContent = clock(time.dateTime, time.dataset.clock);
  }
  for (const cell of root.querySelectorAll("td[data-slot]")) {
    cell.dataset.said ??= cell.title.slice("00:00:00".length); // as the server wrote it, for another zone later
    const label = clock(cell.dataset.slot, "second") + zoned(cell.dataset.said);
    cell.title = label;
    cell.setAttribute("aria-label", label);
  }
}

export const instant = (seconds) => new Date(Math.round(seconds) * 1000).toISOString().replace(".000Z", "Z");

// ---- Numbers

export const exactly = (value) => value.toLocaleString("en", { maximumFractionDigits: 9 });
export const roughly = (value) => value.toLocaleString("en", Math.abs(value) < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 2 });
export const compact = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });

// Short enough for a row; a whole number below 100,000 is told as it is.
export const brief = (value) => (Math.abs(value) < 100000 ? value.toLocaleString("en", { maximumFractionDigits: Number.isInteger(value) ? 0 : 2 }) : compact(value));

export function duration(seconds) {
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]].find(([, each]) => seconds % each === 0);
  return say("unit", unit, { n: seconds / size });
}

export async function getJson(path) {
  const answer = await fetch(path);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.detail);
  return data;
}

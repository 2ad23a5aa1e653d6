// The wall: every target in its group, the worst first. Of thousands of rows only those in sight are elements.

import "./actions.js";
import { changed } from "./address.js";
import { onRepaint } from "./frame.js";
import { connect, onPage } from "./live.js";
import { $, brief, clock, getJson, query, say, zoned } from "./text.js";

const CONDITIONS = ["stopped", "silent", "blocked", "late", "incomplete", "waiting", "paused", "disabled", "removed", "collecting"];
const BAD = 5; // the first so many of them are somebody's business
const ABOVE = 12; // rows kept above and below those in sight
const TREND_SECONDS = 60;
const TRENDS_AT_ONCE = 40;

const wall = {
  targets: { names: [], intervals: [], conditions: [], counts: [], days: [], errors: [], since: [] },
  items: [], // what is shown: { group, count } or { place }
  tops: [],
  elements: new Map(), // by the key of an item
  active: null, // the name that the keyboard is at
  isSorted: false,

  // ---- What the server tells

  tell(changes) {
    if (changes.names) this.isSorted = false;
    for (const [name, change] of Object.entries(changes)) {
      if (Array.isArray(change)) this.targets[name] = change;
      else for (const [place, value] of Object.entries(change)) this.targets[name][place] = value;
    }
    if (changes.names || changes.conditions) this.arrange();
    this.paint();
  },

  // ---- Which rows, in which order

  get search() { return (query().get("search") ?? "").toLowerCase(); },
  get condition() { return query().get("condition") ?? ""; },

  arrange() {
    // Rows do not run away from under somebody's pointer or finger; what changes there changes colour.
    if (this.isSorted && this.isHeld()) return this.regroup(this.order());
    this.isSorted = true;
    this.sorted = this.sort();
    this.regroup(this.order());
  },

  isHeld: () => $("rows").matches(":hover") || $("rows").contains(document.activeElement),

  sort() {
    const { names, conditions } = this.targets;
    const groups = new Map();
    names.forEach((name, place) => {
      const slash = name.indexOf("/");
      const group = slash > 0 ? name.slice(0, slash) : "";
      if (!groups.has(group)) groups.set(group, { name: group, places: [], worst: CONDITIONS.length, bad: 0 });
      const found = groups.get(group);
      found.places.push(place);
      if (conditions[place] < BAD) {
        found.bad += 1;
        found.worst = Math.min(found.worst, conditions[place]);
      }
    });
    const byName = (one, other) => (names[one] < names[other] ? -1 : 1);
    for (const group of groups.values()) group.places.sort((one, other) => conditions[one] - conditions[other] || byName(one, other));
    return [...groups.values()].sort((one, other) => one.worst - other.worst || other.bad - one.bad || !one.name - !other.name || (one.name < other.name ? -1 : 1));
  },

  order() {
    const { targets: { names, conditions }, condition, search } = this;
    const wanted = (place) => (!condition || CONDITIONS[conditions[place]] === condition) && names[place].toLowerCase().includes(search);
    return this.sorted.map((group) => ({ ...group, places: group.places.filter(wanted) })).filter((group) => group.places.length);
  },

  regroup(groups) {
    const hasHeads = groups.length > 1 || groups[0]?.name;
    this.items = groups.flatMap((group) => [...(hasHeads ? [{ group: group.name, count: group.places.length }] : []), ...group.places.map((place) => ({ place }))]);
    $("no-rows").hidden = this.items.length > 0 || !this.targets.names.length;
    this.measure();
    this.paint();
  },

  // ---- Where they stand

  measure() {
    const style = getComputedStyle($("rows"));
    const [row, head] = ["--row", "--group"].map((name) => parseFloat(style.getPropertyValue(name)));
    let top = 0;
    this.tops = this.items.map((item) => {
      const here = top;
      top += item.group === undefined ? row : head;
      return here;
    });
    this.height = top;
    $("rows").classList.add("virtual");
    $("rows").style.height = `${top}px`;
  },

  inSight() {
    const from = -$("rows").getBoundingClientRect().top;
    const first = this.placeAt(from) - ABOVE;
    const last = this.placeAt(from + innerHeight) + ABOVE;
    return [Math.max(0, first), Math.min(this.items.length, last + 1)];
  },

  placeAt(y) {
    let [low, high] = [0, this.tops.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle] <= y) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  },

  // ---- The elements of those in sight

  paint() {
    if (!this.items.length && !this.elements.size) return;
    const [first, last] = this.inSight();
    const shown = new Map();
    for (let index = first; index < last; index += 1) shown.set(this.keyOf(this.items[index]), index);
    const held = this.elements.get(`target ${this.active}`);
    for (const [key, element] of this.elements) {
      if (shown.has(key)) continue;
      if (element === held && element.contains(document.activeElement)) continue; // the focus would be lost with it
      element.remove();
      this.elements.delete(key);
    }
    let after = null;
    for (const [key, index] of shown) {
      const element = this.elements.get(key) ?? this.make(key, this.items[index]);
      this.place(element, index, after);
      this.update(element, this.items[index]);
      after = element;
    }
    trends.want();
  },

  keyOf(item) { return item.group === undefined ? `target ${this.targets.names[item.place]}` : `group ${item.group}`; },

  make(key, item) {
    const template = item.group === undefined ? $("row-template") : $("group-template");
    const element = template.content.firstElementChild.cloneNode(true);
    this.elements.set(key, element);
    if (item.group === undefined) {
      const name = this.targets.names[item.place];
      const link = element.querySelector(".target");
      element.dataset.key = name;
      link.title = name; // a long one is cut off
      link.href = `/targets/${encodeURIComponent(name).replaceAll("%2F", "/").replaceAll("%3A", ":")}`;
      link.textContent = name;
      trends.draw(element);
    }
    return element;
  },

  // In the order of the list also in the document: the keyboard and a reader's voice follow that.
  place(element, index, after) {
    const top = `${this.tops[index]}px`;
    if (element.style.top !== top) element.style.top = top;
    const next = after ? after.nextElementSibling : $("rows").firstElementChild;
    if (next !== element) $("rows").insertBefore(element, next);
    element.ariaPosInSet = index + 1;
    element.ariaSetSize = this.items.length;
  },

  update(element, item) {
    if (item.group !== undefined) {
      set(element.querySelector(".group-name"), item.group || say("targets", "ungrouped"));
      set(element.querySelector(".count"), item.count.toLocaleString("en"));
      return;
    }
    const { targets } = this;
    const condition = CONDITIONS[targets.conditions[item.place]];
    const [count, day, since] = [targets.counts[item.place], targets.days[item.place], targets.since[item.place]];
    if (element.dataset.condition !== condition) {
      element.dataset.condition = condition;
      element.className = `row ${condition}`;
      element.querySelector(".state").className = `state ${condition}`;
    }
    set(element.querySelector(".state"), say("targets", condition));
    set(element.querySelector(".error"), this.reason(item.place, since));
    set(element.querySelector(".newest-count"), count === null ? "" : brief(count));
    set(element.querySelector(".day"), day === null ? "" : day === 10000 ? "100%" : `${(day / 100).toFixed(2)}%`);
    const stop = this.targets.names[item.place] === (this.active ?? this.firstName()) ? 0 : -1;
    const link = element.querySelector(".target");
    if (link.tabIndex !== stop) link.tabIndex = stop;
  },

  reason(place, since) {
    const error = zoned(this.targets.errors[place] ?? "");
    if (since === null) return error;
    const age = Date.now() / 1000 - since;
    const time = clock(since * 1000, age < 0 || age >= 86400 ? "full" : "second");
    return [`${say("targets", "since_before")}${time}${say("targets", "since_after")}`, error].filter(Boolean).join(" · ");
  },

  firstName() {
    const first = this.items.find((item) => item.place !== undefined);
    return first && this.targets.names[first.place];
  },

  // ---- The keyboard

  step(by) {
    const rows = this.items.map((item, index) => [item, index]).filter(([item]) => item.place !== undefined);
    if (!rows.length) return;
    const at = rows.findIndex(([item]) => this.targets.names[item.place] === this.active);
    const next = by === Infinity ? rows.length - 1 : by === -Infinity ? 0 : Math.min(rows.length - 1, Math.max(0, at + by));
    this.goTo(...rows[next]);
  },

  goTo(item, index) {
    this.active = this.targets.names[item.place];
    const { top } = $("rows").getBoundingClientRect();
    const y = top + this.tops[index];
    if (y < 80 || y > innerHeight - 120) scrollBy(0, y - innerHeight / 2);
    this.paint();
    this.elements.get(`target ${this.active}`)?.querySelector(".target").focus({ preventScroll: true });
  },
};

function set(element, content) {
  if (element.textContent !== content) element.textContent = content;
}

// ---- The hour and the day of the rows in sight

const trends = {
  known: new Map(), // name: { at, means, hours }
  asked: new Set(),
  timer: 0,

  want() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), 60);
  },

  async ask() {
    const old = Date.now() - TREND_SECONDS * 1000;
    const names = [...wall.elements.values()].map((element) => element.dataset.key)
      .filter((name) => name && !this.asked.has(name) && !(this.known.get(name)?.at > old)).slice(0, TRENDS_AT_ONCE);
    if (!names.length) return;
    for (const name of names) this.asked.add(name);
    try {
      const { items } = await getJson(`/api/v1/trends?${new URLSearchParams(names.map((name) => ["metric", name]))}`);
      for (const item of items) this.known.set(item.metricName, { at: Date.now(), ...item });
    } catch {
      // The bar says that the server is away; what is known stays.
    }
    for (const name of names) {
      this.asked.delete(name);
      const element = wall.elements.get(`target ${name}`);
      if (element) this.draw(element);
    }
    this.want();
  },

  draw(element) {
    const found = this.known.get(element.dataset.key);
    if (!found) return;
    const [area, line] = element.querySelectorAll(".spark path");
    const drawn = path(found.means);
    line.setAttribute("d", drawn.line);
    area.setAttribute("d", drawn.area);
    element.querySelector(".strip").replaceChildren(...found.hours.map(([stored, expected], hour) => bar(stored, expected, hour, found.hours.length)));
  },
};

const round = (value) => Math.round(value * 10) / 10;

// A hole is a hole: no line crosses it. Zero is always in sight.
function path(means) {
  const found = means.filter((mean) => mean !== null);
  const [least, most] = [Math.min(0, ...found), Math.max(1e-9, ...found)];
  const x = (index) => round((index * 120) / Math.max(1, means.length - 1));
  const y = (mean) => round(26 - (24 * (mean - least)) / (most - least));
  let [line, area, start] = ["", "", null];
  means.forEach((mean, index) => {
    if (mean === null) { start = null; return; }
    line += `${start === null ? "M" : "L"}${x(index)} ${y(mean)}`;
    if (start !== null) area += `M${x(index - 1)} 28L${x(index - 1)} ${y(means[index - 1])}L${x(index)} ${y(mean)}L${x(index)} 28Z`;
    start = index;
  });
  return { line, area };
}

const SVG = "http://www.w3.org/2000/svg";

function bar(stored, expected, hour, hours) {
  const rect = document.createElementNS(SVG, "rect");
  const part = expected ? stored / expected : 0;
  const width = 24 / hours;
  rect.setAttribute("x", round(hour * width + 0.05));
  rect.setAttribute("width", width - 0.14);
  rect.setAttribute("y", 0);
  rect.setAttribute("height", 10);
  rect.setAttribute("class", !expected ? "none" : part === 1 ? "whole" : part >= 0.99 ? "nearly" : part > 0 ? "partly" : "empty");
  return rect;
}

// ---- What the reader does

function look(changes) {
  history.replaceState(null, "", changed({ after: null, ...changes }));
  for (const link of document.querySelectorAll("#conditions a")) {
    link.toggleAttribute("aria-current", link.dataset.condition === wall.condition);
    if (link.dataset.condition === wall.condition) link.setAttribute("aria-current", "true");
  }
  wall.active = null;
  if (wall.sorted) wall.regroup(wall.order());
}

document.addEventListener("input", ({ target }) => { if (target.id === "search") look({ search: target.value }); });
document.addEventListener("submit", (event) => {
  if (event.target.role === "search" || event.target.matches("[role=search]")) {
    event.preventDefault();
    wall.step(-Infinity);
  }
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("#conditions a");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    look({ condition: link.dataset.condition });
  }
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, select, textarea") || $("dialog").open;
  if (event.key === "/" && !isTyping) $("search").focus();
  else if (event.target.id === "search" && event.key === "ArrowDown") wall.step(-Infinity);
  else if (event.target.id === "search" && event.key === "Escape") { $("search").value = ""; look({ search: "" }); }
  else if (event.target.closest("#rows")) {
    const by = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (!by) return;
    wall.step(by);
  } else return;
  event.preventDefault();
});

$("rows").addEventListener("focusin", ({ target }) => {
  const name = target.closest(".row")?.dataset.key;
  if (name && name !== wall.active) { wall.active = name; wall.paint(); }
});

let frame = 0;
addEventListener("scroll", () => { frame ||= requestAnimationFrame(() => { frame = 0; wall.paint(); }); }, { passive: true });
addEventListener("resize", () => { wall.measure(); wall.paint(); });
addEventListener("popstate", () => location.reload());

onPage((page) => {
  if (page.wall && Object.keys(page.wall).length) {
    if (!wall.elements.size) $("rows").replaceChildren();
    wall.tell(page.wall);
  }
});
onRepaint(() => wall.paint());
setInterval(() => { if (!document.hidden) trends.want(); }, TREND_SECONDS * 1000);
connect();

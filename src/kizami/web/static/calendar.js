// The calendar of completeness: the days of a year, the hours of a day, the slots of an hour; of one target or of all.
// A hole of any age is found here, asked for again, and seen to fill.

import { act, backfill } from "./actions.js";
import { changed, go } from "./address.js";
import { onRepaint } from "./frame.js";
import { connect, onPage } from "./live.js";
import { metric } from "./stream.js";
import { $, clock, getJson, instant, instantAt, query, say, text, words, zoned, zoneId } from "./text.js";

const DAYS_AT_ONCE = 7; // of all targets; each is thousands of figures

// The instant at which a day of the chosen zone begins, and the day that an instant is in.
const midnight = (year, month, day) => instantAt(year, month, day);
const dayOf = (moment) => clock(moment, "full").slice(0, 10);

export const calendar = {
  cells: new Map(), // by the instant at which they begin, in seconds
  shown: 0, // what is asked for an older view is not drawn

  get first() { return Date.parse($("calendar").dataset.first || "") || Date.now(); },
  get year() { return Number(query().get("year")) || Number(dayOf(this.day ?? Date.now()).slice(0, 4)); },
  get day() { return Date.parse(query().get("day") ?? "") || null; },
  get hour() { return Date.parse(query().get("hour") ?? "") || null; },

  // ---- What is shown

  show() {
    this.shown += 1;
    this.drawYears();
    this.drawCrumbs();
    this.tell("");
    if (this.hour && !metric()) return this.showHour();
    if (this.day) return this.showDay();
    return this.showYear();
  },

  async showYear() {
    const { year, shown } = this;
    const [from, to] = [midnight(year, 0, 1), midnight(year + 1, 0, 1)];
    $("calendar-body").className = "months";
    const months = Array.from({ length: 12 }, (_, month) => this.month(year, month));
    // Months in which nothing could be due say nothing.
    $("calendar-body").replaceChildren(...months.filter((month) => month.querySelector(".cell:enabled")));
    this.rove();
    const end = Math.min(to, Date.now());
    const start = Math.max(from, midnight(...dayParts(this.first)));
    if (metric()) return this.read(start, end, "day", shown);
    // The newest first: that is what most people look for.
    for (let last = end; last > start && shown === this.shown;) {
      const [y, m, d] = dayParts(last - 1);
      const begin = Math.max(start, midnight(y, m, d - DAYS_AT_ONCE + 1));
      await this.read(begin, last, "day", shown);
      last = begin;
    }
  },

  async showDay() {
    const { day, shown } = this;
    const next = midnight(...dayParts(day, 1));
    $("calendar-body").className = "hours";
    const hours = [];
    for (let hour = day; hour < next; hour += 3600e3) hours.push(this.cell(hour, clock(hour, "minute"), hour > Date.now()));
    $("calendar-body").replaceChildren(...hours);
    this.rove();
    await this.read(day, Math.min(next, Date.now() + 3600e3), "hour", shown);
    this.total();
  },

  async showHour() {
    const { hour, shown } = this;
    const [from, to] = [instant(hour / 1000), instant(hour / 1000 + 3600)];
    $("calendar-body").className = "holes";
    $("calendar-body").replaceChildren(text("p", say("calendar", "loading"), "note"));
    const found = await this.attempt(() => getJson(`/api/v1/gaps?${new URLSearchParams({ from, to, limit: 200 })}`));
    await this.read(hour, hour + 3600e3, "hour", shown, false);
    if (!found || shown !== this.shown) return;
    $("calendar-body").replaceChildren(found.items.length ? this.holes(found.items) : text("p", say("calendar", "whole"), "empty"));
    this.total();
  },

  holes(gaps) {
    const list = document.createElement("ul");
    for (const gap of gaps) {
      const entry = document.createElement("li");
      const link = text("a", gap.metricName);
      const until = instant(Math.floor(this.hour / 1000) + 3599);
      link.href = `/targets/${encodeURIComponent(gap.metricName).replaceAll("%2F", "/")}?${new URLSearchParams({ until, minutes: 60 })}#slots`;
      entry.append(link, text("span", say("calendar", "lacking", { n: gap.slots })), text("span", `${clock(gap.from, "second")} – ${clock(gap.to, "second")}`, "of"));
      list.append(entry);
    }
    return list;
  },

  // ---- The cells

  month(year, month) {
    const box = document.createElement("section");
    const grid = text("div", "", "days");
    const days = new Date(year, month + 1, 0).getDate();
    const before = (new Date(year, month, 1).getDay() + 6) % 7;
    grid.append(...Array.from({ length: before }, () => text("span", "")));
    for (let day = 1; day <= days; day += 1) {
      const start = midnight(year, month, day);
      grid.append(this.cell(start, String(day), start > Date.now() || midnight(year, month, day + 1) <= this.first));
    }
    box.append(text("h3", words.calendar.months.split(" ")[month]), grid);
    return box;
  },

  cell(start, label, isOutside) {
    const button = text("button", label, "cell");
    button.type = "button";
    button.dataset.start = start;
    button.disabled = isOutside;
    if (!isOutside) this.paint(button);
    return button;
  },

  paint(button) {
    const start = Number(button.dataset.start);
    const cell = this.cells.get(start / 1000);
    const part = cell?.expected ? cell.stored / cell.expected : null;
    const kind = !cell ? "loading" : part === null ? "none" : part === 1 ? "whole" : part >= 0.99 ? "nearly" : part > 0 ? "partly" : "empty";
    if (button.dataset.kind === kind && cell?.stored === Number(button.dataset.stored)) return;
    button.dataset.kind = kind;
    button.dataset.stored = cell?.stored ?? "";
    const when = this.day ? clock(start, "full-minute") : dayOf(start);
    button.title = `${when}: ${this.words(cell)}`;
    button.ariaLabel = button.title;
  },

  words(cell) {
    if (!cell) return say("calendar", "loading");
    if (!cell.expected) return say("calendar", "nothing");
    const facts = [say("calendar", "of", { stored: cell.stored.toLocaleString("en"), expected: cell.expected.toLocaleString("en") })];
    const missing = cell.expected - cell.stored;
    facts.push(missing ? say("calendar", "lacking", { n: missing }) : say("calendar", "whole"));
    if (missing && !metric()) facts.push(say("calendar", "targets", { n: cell.lackingTargets }));
    return facts.join(" · ");
  },

  async read(from, to, by, shown, isPainted = true) {
    if (from >= to) return;
    const about = { ...(metric() ? { metric: metric() } : {}), from: instant(from / 1000), to: instant(Math.ceil(to / 1000)), by, tz: zoneId() };
    const found = await this.attempt(() => getJson(`/api/v1/calendar?${new URLSearchParams(about)}`));
    if (!found || shown !== this.shown) return;
    for (const cell of found.cells) this.cells.set(Date.parse(cell.from) / 1000, cell);
    if (!isPainted) return;
    for (const button of document.querySelectorAll("#calendar-body .cell:not(:disabled)")) {
      if (this.cells.has(button.dataset.start / 1000)) this.paint(button);
    }
  },

  async attempt(ask) {
    try {
      return await ask();
    } catch (error) {
      this.tell(say("calendar", "failed", { reason: zoned(error.message) }));
      return null;
    }
  },

  // ---- What it comes to

  get range() {
    if (this.hour) return [this.hour, this.hour + 3600e3];
    return this.day ? [this.day, midnight(...dayParts(this.day, 1))] : null;
  },

  total() {
    const [from, to] = this.range;
    const found = [...this.cells.values()].filter((cell) => Date.parse(cell.from) >= from && Date.parse(cell.to) <= to && Date.parse(cell.to) - Date.parse(cell.from) <= 3600e3);
    const sum = (name) => found.reduce((total, cell) => total + cell[name], 0);
    const [stored, expected] = [sum("stored"), sum("expected")];
    this.tell(this.words({ stored, expected, lackingTargets: Math.max(0, ...found.map((cell) => cell.lackingTargets)) }), expected > stored);
  },

  tell(message, isLacking = false) {
    $("calendar-readout").textContent = message;
    $("calendar-backfill").hidden = !isLacking;
  },

  order() {
    const [from, to] = this.range.map((moment) => instant(moment / 1000));
    return backfill(metric() ? { metric: metric(), from, to } : { allGaps: true, from, to });
  },

  // What lacks slots is counted again while a backfill runs.
  async refresh() {
    const { shown } = this;
    const lacking = [...document.querySelectorAll("#calendar-body .cell:not(:disabled)")].filter(({ dataset }) => ["nearly", "partly", "empty"].includes(dataset.kind));
    if (this.hour && !metric()) return void this.showHour();
    if (!lacking.length) return;
    const starts = lacking.map(({ dataset }) => Number(dataset.start));
    const end = this.day ? Math.max(...starts) + 3600e3 : midnight(...dayParts(Math.max(...starts), 1));
    if (metric() || this.day) await this.read(Math.min(...starts), Math.min(end, Date.now() + 3600e3), this.day ? "hour" : "day", shown);
    else for (const start of starts.slice(-DAYS_AT_ONCE)) await this.read(start, Math.min(midnight(...dayParts(start, 1)), Date.now()), "day", shown);
    if (this.day) this.total();
  },

  // ---- Getting around

  drawYears() {
    const last = Number(dayOf(Date.now()).slice(0, 4));
    const first = Math.min(last, Math.max(1971, Number(dayOf(this.first).slice(0, 4))));
    $("calendar-years").replaceChildren(...Array.from({ length: last - first + 1 }, (_, index) => {
      const link = this.link(String(first + index), { year: first + index === last ? null : first + index, day: null, hour: null });
      if (first + index === this.year) link.setAttribute("aria-current", "true");
      return link;
    }));
    $("calendar-years").hidden = last === first;
  },

  drawCrumbs() {
    const crumbs = [];
    if (this.day) crumbs.push(this.link(String(this.year), { day: null, hour: null }), text("span", dayOf(this.day)));
    if (this.hour) {
      crumbs[1] = this.link(dayOf(this.day), { hour: null });
      crumbs.push(text("span", `${clock(this.hour, "minute")} – ${clock(this.hour + 3600e3, "minute")}`));
    }
    $("calendar-crumbs").replaceChildren(...crumbs.flatMap((crumb, index) => (index ? [" › ", crumb] : [crumb])));
    $("calendar-crumbs").hidden = !crumbs.length;
  },

  link(label, changes) {
    const link = text("a", label);
    link.href = changed(changes);
    link.dataset.calendar = "";
    return link;
  },

  open(button) {
    const start = Number(button.dataset.start);
    if (!this.day) return this.goTo(changed({ day: instant(start / 1000), hour: null }));
    if (!metric()) return this.goTo(changed({ hour: instant(start / 1000) }));
    // The slots of the hour stand in the grid above.
    go(changed({ until: instant(start / 1000 + 3599), minutes: 60, hour: instant(start / 1000) }));
    $("slots").scrollIntoView();
    $("slots").focus({ preventScroll: true });
  },

  goTo(url) {
    history.pushState(null, "", url);
    this.show();
    $("calendar").focus({ preventScroll: true });
  },

  rove() {
    const cells = [...document.querySelectorAll("#calendar-body .cell:not(:disabled)")];
    for (const cell of cells) cell.tabIndex = -1;
    if (cells.length) cells.at(-1).tabIndex = 0;
  },

  step(cell, key) {
    const cells = [...document.querySelectorAll("#calendar-body .cell:not(:disabled)")];
    const at = cells.indexOf(cell);
    const row = this.day ? Math.round($("calendar-body").clientWidth / cell.offsetWidth) : 7;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row, Home: -at, End: cells.length - 1 - at }[key];
    const next = cells[Math.min(cells.length - 1, Math.max(0, at + by))];
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  },
};

function dayParts(moment, more = 0) {
  const [year, month, day] = dayOf(moment).split("-").map(Number);
  return [year, month - 1, day + more];
}

$("calendar").addEventListener("click", (event) => {
  const cell = event.target.closest(".cell");
  const link = event.target.closest("a[data-calendar]");
  if (cell) calendar.open(cell);
  else if (link && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    calendar.goTo(link.getAttribute("href"));
  }
});
$("calendar").addEventListener("keydown", (event) => {
  const cell = event.target.closest(".cell");
  if (!cell || !/^(Arrow|Home|End)/.test(event.key)) return;
  calendar.step(cell, event.key);
  event.preventDefault();
});
for (const kind of ["focusin", "pointerover"]) {
  $("calendar").addEventListener(kind, ({ target }) => { if (target.matches(".cell") && !calendar.day) calendar.tell(target.title); });
}
$("calendar-backfill").addEventListener("click", ({ currentTarget }) => act(currentTarget, () => calendar.order()));
onRepaint(() => { calendar.cells.clear(); calendar.show(); });
onPage((page) => { if (page.parts.orders) calendar.refresh(); });
addEventListener("popstate", () => calendar.show());

calendar.show();
if (location.pathname === "/calendar") connect();

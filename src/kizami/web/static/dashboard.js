// The page's one script: live updates, the chart, selecting slots, and the actions. Whatever the server says is
// either HTML that it has escaped itself or text that is set as text.

const $ = (id) => document.getElementById(id);
const words = JSON.parse(document.body.dataset.words);
const query = () => new URLSearchParams(location.search);

function say(section, key, values = {}) {
  const phrase = (values.n === 1 && words[section][`${key}_one`]) || words[section][key];
  return phrase.replace(/\{(\w+)\}/g, (_, name) => (name === "n" ? values.n.toLocaleString("en") : values[name]));
}

// ---- Time, in UTC or in the reader's own zone

let zone = localStorage.getItem("zone") === "local" ? "local" : "utc";

function clock(instant, style) {
  const options = { hourCycle: "h23", hour: "2-digit", minute: "2-digit" };
  if (style.startsWith("full")) Object.assign(options, { year: "numeric", month: "2-digit", day: "2-digit" });
  if (style === "second" || style === "full") options.second = "2-digit";
  if (zone === "utc") options.timeZone = "UTC";
  // The Swedish form of a time is that of ISO 8601.
  return new Date(instant).toLocaleString("sv-SE", options).replace(",", "");
}

function localize(root) {
  for (const time of root.querySelectorAll("time[data-clock]")) {
    time.textContent = clock(time.dateTime, time.dataset.clock);
  }
  if (zone === "utc") return;
  for (const cell of root.querySelectorAll("td[data-slot]")) {
    const label = clock(cell.dataset.slot, "second") + cell.title.slice("00:00:00".length);
    cell.title = label;
    cell.setAttribute("aria-label", label);
  }
}

// ---- Renewing parts of the page in place, so that focus and selection stay where they are

const KEPT = new Set(["aria-selected", "aria-disabled", "tabindex"]);

function renew(element, html) {
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
function placeOf(element) {
  const panel = element.closest("section, header");
  const isOfGrid = element.closest("#grid, #selection");
  const kindOf = (other) => `${other.parentElement?.nodeName} ${other.nodeName} ${other.dataset.action}`;
  const inside = panel && !isOfGrid ? [...panel.querySelectorAll(element.nodeName)] : [element];
  const likes = inside.filter((other) => kindOf(other) === kindOf(element));
  const at = likes.indexOf(element);
  return {
    element,
    likes: [...likes.slice(at), ...likes.slice(0, at).reverse()],
    refuges: () => [
      isOfGrid && document.querySelector('#grid td[tabindex="0"]'),
      element.id === "backfill-range" && $("chart"),
      panel?.querySelector(".head [data-action]"),
      panel,
    ],
  };
}

function goTo(place) {
  const found = [...place.likes, ...place.refuges()].find((element) => element && isUsable(element));
  if (found?.nodeName === "SECTION") found.tabIndex = -1;
  found?.focus();
}

function keepFocus(change) {
  const focused = document.activeElement;
  const place = focused && focused !== document.body ? placeOf(focused) : null;
  change();
  if (place && !(document.activeElement === focused && isUsable(focused))) goTo(place);
}

function renewRows(rows, order) {
  const body = $("grid-body");
  // The first target needs a table.
  if (!body && order.length) location.reload();
  if (!body) return;
  const wanted = new Set(order);
  for (const row of [...body.children]) if (!wanted.has(row.id)) row.remove();
  order.forEach((id, index) => {
    let row = $(id);
    if (rows[id]) row = row ? (renew(row, rows[id]), row) : renew(null, rows[id]);
    if (row && body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
  });
  grid.refresh();
}

// ---- Live updates

let events;
let silence;
let heardAt = Date.now();
let level = $("verdict").classList[1];

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

function connect() {
  watch();
  events?.close();
  const parameters = query();
  parameters.set("lang", document.documentElement.lang);
  events = new EventSource(`/api/v1/live?${parameters}`);
  for (const kind of ["page", "trouble", "beat"]) events.addEventListener(kind, hear);
  events.addEventListener("page", (event) => show(JSON.parse(event.data)));
  events.addEventListener("trouble", (event) => {
    setLive("trouble", say("live", "trouble", { reason: JSON.parse(event.data).detail }));
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

function show(page) {
  setLive("connected", say("live", "connected"));
  document.title = page.title;
  keepFocus(() => {
    for (const [id, html] of Object.entries(page.parts)) renew($(id), html);
    renewRows(page.rows, page.order);
  });
  if (page.level !== level) $("announcer").textContent = $("verdict-sentence").textContent;
  level = page.level;
  chart.follow(page.tail, page.holes);
}

// ---- The view is in the URL

function go(url) {
  history.pushState(null, "", url);
  arrive();
}

function arrive() {
  connect();
  chart.load();
  grid.clear();
  if (location.hash) $(location.hash.slice(1))?.scrollIntoView();
}

function changed(changes) {
  const parameters = query();
  for (const [name, value] of Object.entries(changes)) value ? parameters.set(name, value) : parameters.delete(name);
  return parameters.size ? `/?${parameters}` : "/";
}

const instant = (seconds) => new Date(Math.round(seconds) * 1000).toISOString().replace(".000Z", "Z");

// ---- The chart

const chart = {
  data: null,
  plot: null,
  holes: null,
  loadedAt: 0,
  hasFailed: false,
  shortest: 30,

  get metric() { return query().get("metric") ?? $("chart-head").dataset.metric; },
  get isLive() { return !query().has("from"); },

  async load() {
    if (!this.metric) return;
    this.loadedAt = Date.now();
    const zoomed = query();
    const range = this.isLive ? { last: zoomed.get("range") ?? "15m" } : { from: zoomed.get("from"), to: zoomed.get("to") };
    const asked = location.search;
    try {
      const answer = await fetch(`/api/v1/chart?${new URLSearchParams({ metric: this.metric, ...range })}`);
      const data = await answer.json();
      if (!answer.ok) throw new Error(data.detail);
      if (asked !== location.search) return;
      this.data = data;
      this.hasFailed = false;
      this.draw();
    } catch (error) {
      if (asked !== location.search) return;
      this.hasFailed = true;
      $("chart-summary").textContent = $("readout").textContent = say("chart", "failed", { reason: error.message });
    }
  },

  // Slots that have just arrived. A coarse chart, one of which older slots have changed, and one that has missed
  // more than the newest slots tell, is loaded anew.
  follow(tail, holes) {
    const { data } = this;
    const stale = this.holes !== null && this.holes !== holes;
    this.holes = holes;
    const age = (Date.now() - this.loadedAt) / 1000;
    if (this.hasFailed && age > 3) return void this.load();
    if (!data || !tail || tail.metricName !== data.metricName) return;
    const isFine = data.grainSeconds === tail.grainSeconds;
    const isBehind = this.isLive && tail.time[0] > data.time.at(-1) + data.grainSeconds;
    if (((stale || isBehind) && age > 1) || (this.isLive && !isFine && age > Math.max(5, data.grainSeconds / 4))) {
      this.load();
    } else if (this.isLive && isFine && !isBehind) {
      this.append(tail);
    }
  },

  append(tail) {
    const { data } = this;
    const seconds = (Date.parse(data.to) - Date.parse(data.from)) / 1000;
    const columns = ["lowest", "highest", "mean", "stored", "expected"];
    tail.time.forEach((time, index) => {
      let at = data.time.indexOf(time);
      if (at < 0 && time > data.time.at(-1)) at = data.time.push(time) - 1;
      if (at >= 0) for (const column of columns) data[column][at] = tail[column][index];
    });
    data.to = tail.to;
    data.from = instant(Date.parse(tail.to) / 1000 - seconds);
    const gone = data.time.findIndex((time) => time >= Date.parse(data.from) / 1000 - data.grainSeconds);
    for (const column of ["time", ...columns]) data[column].splice(0, gone);
    this.draw();
  },

  // A bucket that lacks a slot stands alone: no line leads to it or away from it.
  columns() {
    const { data } = this;
    const columns = [[], [], [], []];
    const put = (...values) => values.forEach((value, index) => columns[index].push(value));
    data.time.forEach((time, index) => {
      const isAlone = data.stored[index] > 0 && data.stored[index] < data.expected[index];
      const aside = data.grainSeconds * 0.49;
      if (isAlone) put(time - aside, null, null, null);
      put(time, data.mean[index], data.lowest[index], data.highest[index]);
      if (isAlone) put(time + aside, null, null, null);
    });
    return columns;
  },

  draw() {
    const { data } = this;
    this.summarize();
    this.plot ??= this.create();
    this.plot.setData(this.columns(), false);
    this.plot.setScale("x", { min: Date.parse(data.from) / 1000, max: Date.parse(data.to) / 1000 });
  },

  create() {
    const colour = (name) => {
      const probe = $("chart").appendChild(document.createElement("span"));
      probe.className = `probe-${name}`;
      const found = getComputedStyle(probe).color;
      probe.remove();
      return found;
    };
    const [line, band, rule, text] = ["line", "band", "rule", "text"].map(colour);
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: text, font, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1, size: 5 } };
    const alone = (u, series) => {
      const values = u.data[series];
      return values.map((value, index) => index).filter(
        (index) => values[index] != null && values[index - 1] == null && values[index + 1] == null,
      );
    };
    return new uPlot({
      width: $("chart").clientWidth,
      height: 260,
      legend: { show: false },
      tzDate: (seconds) => (zone === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7, fill: line },
        bind: { mousedown: (u, target, handler) => (event) => (event.shiftKey ? this.pan(event) : handler(event)) },
      },
      scales: { y: { range: (u, low, high) => [0, Math.max(1, high ?? 1) * 1.08] } },
      axes: [
        { ...axis, values: axisTimes, space: 70, size: 42 },
        { ...axis, size: 52, values: (u, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? compact(tick) : "")) },
      ],
      series: [
        {},
        { stroke: line, width: 1.75, points: { show: true, size: 5, fill: line, stroke: line, filter: alone } },
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: true, size: 3, fill: line, stroke: line, filter: (u, series) => (this.isBanded ? alone(u, series) : []) } },
      ],
      bands: [{ series: [3, 2], fill: band }],
      hooks: {
        drawClear: [(u) => this.shadeHoles(u, colour("hole"))],
        setCursor: [(u) => this.readOut(u.cursor.idx)],
        setSelect: [(u) => this.zoomTo(u)],
      },
    }, [[], [], [], []], $("chart"));
  },

  get isBanded() { return this.data.grainSeconds > this.data.intervalSeconds; },

  shadeHoles(u, fill) {
    const { data } = this;
    if (!data) return;
    u.ctx.save();
    u.ctx.fillStyle = fill;
    for (const [from, to] of this.lacking()) {
      const left = Math.max(u.bbox.left, u.valToPos(from, "x", true));
      const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos(to, "x", true));
      if (right > left) u.ctx.fillRect(left, u.bbox.top, Math.max(1, right - left), u.bbox.height);
    }
    u.ctx.restore();
  },

  // Runs of buckets that lack slots: drawn one by one, their edges would show as stripes.
  lacking() {
    const { time, stored, expected, grainSeconds } = this.data;
    const runs = [];
    time.forEach((from, index) => {
      if (stored[index] >= expected[index]) return;
      const last = runs.at(-1);
      if (last && last[1] === from) last[1] = from + grainSeconds;
      else runs.push([from, from + grainSeconds]);
    });
    return runs;
  },

  backfill() {
    const { data } = this;
    const runs = this.lacking();
    const [from, to] = [Math.max(runs[0][0], Date.parse(data.from) / 1000), Math.min(runs.at(-1)[1], Date.parse(data.to) / 1000)];
    return backfill({ metric: data.metricName, from: instant(from), to: instant(to) });
  },

  readOut(index) {
    const { data } = this;
    const time = index == null ? null : this.plot.data[0][index];
    const at = data.time.indexOf(time);
    $("readout").replaceChildren(...(at < 0 ? this.scaleNote() : this.values(at)));
  },

  scaleNote() {
    const grain = duration(this.data.grainSeconds);
    return [text("span", say("chart", "grain", { grain }))];
  },

  values(at) {
    const { data } = this;
    const [low, high] = [data.lowest[at], data.highest[at]];
    const facts = [[null, clock(data.time[at] * 1000, "full")]];
    if (low === null) facts.push([say("chart", "stored"), `${data.stored[at]}/${data.expected[at]}`]);
    else if (!this.isBanded) facts.push([say("chart", "count"), low.toLocaleString("en")]);
    else {
      facts.push([say("chart", "mean"), data.mean[at].toLocaleString("en", { maximumFractionDigits: 2 })]);
      facts.push([say("chart", "band"), `${low.toLocaleString("en")} – ${high.toLocaleString("en")}`]);
      facts.push([say("chart", "stored"), `${data.stored[at]}/${data.expected[at]}`]);
    }
    return facts.map(([label, value]) => {
      const fact = text("span", label ? `${label} ` : "");
      fact.append(text("b", value));
      return fact;
    });
  },

  summarize() {
    const { data } = this;
    const sum = (column) => column.reduce((total, value) => total + value, 0);
    const lows = data.lowest.filter((value) => value !== null);
    const stored = sum(data.stored);
    const total = sum(data.mean.map((mean, index) => (mean ?? 0) * data.stored[index]));
    $("chart-summary").textContent = say("chart", stored ? "summary" : "summary_empty", {
      metric: data.metricName,
      stored: stored.toLocaleString("en"),
      expected: sum(data.expected).toLocaleString("en"),
      lowest: lows.reduce((least, value) => Math.min(least, value), Infinity).toLocaleString("en"),
      highest: data.highest.reduce((most, value) => Math.max(most, value ?? 0), 0).toLocaleString("en"),
      mean: (stored ? total / stored : 0).toLocaleString("en", { maximumFractionDigits: 2 }),
    });
    keepFocus(() => { $("backfill-range").hidden = !this.lacking().length; });
    if (this.plot?.cursor.idx == null) $("readout").replaceChildren(...this.scaleNote());
  },

  zoomTo(u) {
    if (u.select.width < 4) return;
    const from = u.posToVal(u.select.left, "x");
    const to = u.posToVal(u.select.left + u.select.width, "x");
    u.setSelect({ width: 0, height: 0 }, false);
    this.look(from, to);
  },

  pan(event) {
    const { min, max } = this.plot.scales.x;
    const perPixel = (max - min) / this.plot.over.clientWidth;
    const began = event.clientX;
    const shift = (moved) => (began - moved.clientX) * perPixel;
    const move = (moved) => this.plot.setScale("x", { min: min + shift(moved), max: max + shift(moved) });
    const end = (moved) => {
      document.removeEventListener("mousemove", move);
      this.look(min + shift(moved), max + shift(moved));
    };
    document.addEventListener("mousemove", move);
    document.addEventListener("mouseup", end, { once: true });
  },

  look(from, to) {
    const now = Date.now() / 1000;
    const seconds = Math.min(Math.max(to - from, this.shortest), 31 * 86400);
    const middle = Math.min((from + to) / 2, now - seconds / 2);
    go(changed({ from: instant(middle - seconds / 2), to: instant(middle + seconds / 2) }));
  },

  move(kind) {
    if (!this.data) return;
    const [from, to] = [Date.parse(this.data.from) / 1000, Date.parse(this.data.to) / 1000];
    const quarter = (to - from) / 4;
    const shifts = { earlier: [-quarter, -quarter], later: [quarter, quarter], in: [quarter, -quarter], out: [-2 * quarter, 2 * quarter] };
    this.look(from + shifts[kind][0], to + shifts[kind][1]);
  },

  recreate() {
    this.plot?.destroy();
    this.plot = null;
    if (this.data) this.draw();
  },
};

function axisTimes(u, ticks, axis, space, step) {
  const style = step >= 86400 ? "day" : step >= 60 ? "minute" : "second";
  let day = "";
  return ticks.map((tick) => {
    const full = clock(tick * 1000, "full");
    const time = style === "second" ? full.slice(11) : full.slice(11, 16);
    const isNewDay = full.slice(0, 10) !== day && (day !== "" || u.scales.x.max - u.scales.x.min > 43200);
    day = full.slice(0, 10);
    if (style === "day") return full.slice(5, 10);
    return isNewDay ? `${time}\n${full.slice(5, 10)}` : time;
  });
}

const compact = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });

function duration(seconds) {
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]].find(([, each]) => seconds % each === 0);
  return say("unit", unit, { n: seconds / size });
}

function text(tag, content) {
  const element = document.createElement(tag);
  element.textContent = content;
  return element;
}

// ---- The grid: moving, selecting, and what is selected

const grid = {
  selected: new Set(),
  active: null,
  anchor: null,

  get cells() { return [...document.querySelectorAll("#grid td")]; },
  cell(slot) { return document.querySelector(`#grid td[data-slot="${CSS.escape(slot ?? "")}"]`); },

  refresh() {
    const cells = this.cells;
    const active = this.cell(this.active) ?? cells.find((cell) => !cell.matches(".ahead, .unknown")) ?? cells[0];
    for (const cell of cells) {
      const isSelected = this.selected.has(cell.dataset.slot);
      if ((cell.getAttribute("aria-selected") === "true") !== isSelected || !cell.hasAttribute("aria-selected")) {
        cell.setAttribute("aria-selected", isSelected);
      }
      const stop = cell === active ? 0 : -1;
      if (cell.tabIndex !== stop) cell.tabIndex = stop;
    }
    $("selection").hidden = !this.selected.size;
    const said = this.selected.size ? say("grid", "selected", { n: this.selected.size }) : "";
    if ($("selected").textContent !== said) $("selected").textContent = said;
    // What a pointer is told by the cell's title, a finger and the keyboard are told here.
    $("selected-cell").textContent = this.selected.size === 1 ? this.cell([...this.selected][0])?.title ?? "" : "";
  },

  clear() {
    this.selected.clear();
    keepFocus(() => this.refresh());
  },

  focus(cell) {
    this.active = cell.dataset.slot;
    this.refresh();
    cell.focus();
  },

  toggle(cell) {
    const { slot } = cell.dataset;
    this.selected.has(slot) ? this.selected.delete(slot) : this.selected.add(slot);
    this.anchor = slot;
    this.refresh();
  },

  extendTo(cell) {
    const [first, last] = [this.anchor ?? cell.dataset.slot, cell.dataset.slot].sort();
    for (const { dataset } of this.cells) if (dataset.slot >= first && dataset.slot <= last) this.selected.add(dataset.slot);
    this.refresh();
  },

  selectMissing() {
    for (const cell of document.querySelectorAll("#grid td[data-repairable]")) this.selected.add(cell.dataset.slot);
    this.refresh();
  },

  step(cell, key) {
    const row = cell.parentElement;
    const cells = this.cells.sort((one, other) => (one.dataset.slot < other.dataset.slot ? -1 : 1));
    const place = cells.indexOf(cell);
    return {
      ArrowLeft: cells[place - 1],
      ArrowRight: cells[place + 1],
      ArrowUp: row.previousElementSibling?.cells[cell.cellIndex],
      ArrowDown: row.nextElementSibling?.cells[cell.cellIndex],
      Home: row.cells[1],
      End: row.cells[row.cells.length - 1],
    }[key];
  },

  onKey(event) {
    const cell = event.target.closest("td");
    if (!cell) return;
    if (event.key === " " || event.key === "Enter") this.toggle(cell);
    else if (event.key === "Escape") this.clear();
    else {
      const next = this.step(cell, event.key);
      if (next === undefined && !event.key.startsWith("Arrow")) return;
      if (next) {
        if (event.shiftKey) {
          this.anchor ??= cell.dataset.slot;
          this.extendTo(next);
        }
        this.focus(next);
      }
    }
    event.preventDefault();
  },

  onPress(event) {
    const cell = event.target.closest("td");
    if (!cell || event.button) return;
    event.preventDefault();
    event.shiftKey && this.anchor ? this.extendTo(cell) : this.toggle(cell);
    this.focus(cell);
    const drag = (moved) => {
      const over = moved.target.closest?.("#grid td");
      if (over && over !== cell) this.extendTo(over);
    };
    document.addEventListener("pointerover", drag);
    document.addEventListener("pointerup", () => document.removeEventListener("pointerover", drag), { once: true });
  },
};

// ---- Actions: preview, ask, do, say

async function post(path, body) {
  const answer = await fetch(`/api/v1/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.detail);
  return result;
}

let opener;

function ask({ heading, facts = [], note = "", confirm }) {
  const dialog = $("dialog");
  const place = placeOf(opener);
  $("dialog-heading").textContent = heading;
  $("dialog-facts").replaceChildren(...facts.flatMap(([label, value]) => [text("dt", label), text("dd", value)]));
  $("dialog-note").textContent = note;
  $("dialog-confirm").textContent = confirm ?? "";
  $("dialog-confirm").hidden = !confirm;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      goTo(place);
      resolve(dialog.returnValue === "confirm");
    }, { once: true });
  });
}

// More names than this would push the buttons off the screen.
const NAMED = 3;
let toastTimer;

function toast(message, failed = false) {
  $("toast").textContent = message;
  $("toast").classList.toggle("failed", failed);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $("toast").textContent = ""; }, failed ? 12000 : 6000);
}

function namesOf(metrics) {
  const names = metrics.slice(0, NAMED).join(", ");
  return metrics.length > NAMED ? say("action", "preview_targets", { names, n: metrics.length - NAMED }) : names;
}

async function backfill(wanted) {
  const plan = await post("backfill", { ...wanted, dryRun: true });
  const slots = plan.missing + plan.dead;
  const facts = [["preview_target", namesOf(plan.metrics)]];
  if (slots) {
    const [start, end] = [clock(plan.first, "full"), clock(plan.last, "full")];
    facts.push(start === end ? ["preview_slot", start] : ["preview_range", say("action", "preview_range_text", { start, end })]);
  }
  for (const kind of ["missing", "dead", "stored", "pending", "other"]) {
    if (plan[kind]) facts.push([`preview_${kind}`, plan[kind].toLocaleString("en")]);
  }
  const agreed = await ask({
    heading: slots ? say("action", "preview", { n: slots }) : say("action", "preview_nothing"),
    facts: facts.filter(([, value]) => value).map(([key, value]) => [say("action", key), value]),
    note: slots ? say("action", "preview_note") : "",
    confirm: slots ? say("action", "confirm") : null,
  });
  if (!agreed) return;
  const done = await post("backfill", { ...wanted, asOf: plan.asOf });
  toast(say("action", "sent", { n: done.sent + done.redriven }));
  grid.clear();
}

async function redrive(wanted, n) {
  const facts = wanted.slots ? [[words.action.preview_target, wanted.metric], [words.action.preview_slot, clock(wanted.slots[0], "full")]] : [];
  const agreed = await ask({
    heading: say("action", "redrive_title", { n }),
    facts,
    note: say("action", "redrive_note"),
    confirm: say("action", "redrive_confirm"),
  });
  if (!agreed) return;
  const done = await post("dead-letters/redrive", wanted);
  toast(done.redriven || !done.kept ? say("action", "redriven", { n: done.redriven }) : say("action", "kept", { n: done.kept }));
}

async function pause(metric) {
  const agreed = await ask({
    heading: say("action", "pause_title", { metric }),
    note: say("action", "pause_note"),
    confirm: say("action", "pause_confirm"),
  });
  if (!agreed) return;
  await post("targets/pause", { metric });
  toast(say("action", "paused", { metric }));
}

async function resume(metric) {
  await post("targets/resume", { metric });
  toast(say("action", "resumed", { metric }));
}

const actions = {
  "backfill": ({ metric, from, to }) => backfill({ metric, from, to }),
  "backfill-all": () => backfill({ allGaps: true }),
  "redrive": ({ metric, slot }) => redrive({ metric, slots: [slot] }, 1),
  "redrive-all": ({ count }) => redrive({ all: true }, Number(count)),
  "pause": ({ metric }) => pause(metric),
  "resume": ({ metric }) => resume(metric),
};

// A button that is really disabled would lose the focus.
async function act(button, action) {
  if (button.ariaDisabled) return;
  button.ariaDisabled = "true";
  opener = button;
  try {
    await action();
  } catch (error) {
    toast(say("action", "failed", { reason: error.message }), true);
  } finally {
    button.ariaDisabled = null;
  }
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch {
    // Only a page from this machine or over TLS may write there: then the line is at least marked.
    getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    return;
  }
  button.textContent = words.copied;
  setTimeout(() => { button.textContent = words.copy; }, 1500);
}

// ---- What the reader does

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const link = event.target.closest("a[data-view]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    go(link.getAttribute("href"));
  } else if (button?.dataset.action) {
    act(button, () => actions[button.dataset.action](button.dataset));
  } else if (button?.dataset.move) {
    chart.move(button.dataset.move);
  } else if (button?.dataset.copy) {
    copy(button);
  } else if (button?.id === "select-missing") {
    grid.selectMissing();
  } else if (button?.id === "clear-selection") {
    grid.clear();
  } else if (button?.id === "backfill-range") {
    act(button, () => chart.backfill());
  } else if (button?.id === "backfill-selected") {
    act(button, () => backfill({ metric: chart.metric, slots: [...grid.selected].sort() }));
  }
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-view]")) return;
  event.preventDefault();
  go(`/?${new URLSearchParams([...new FormData(event.target)].filter(([, value]) => value))}`);
});

document.addEventListener("change", (event) => {
  const { target } = event;
  if (target.matches("form[data-view] select")) target.form.requestSubmit();
  else if (target.id === "theme") setTheme(target.value);
  else if (target.id === "zone") setZone(target.value);
});

$("language").addEventListener("click", (event) => {
  event.preventDefault();
  location.assign(changed({ lang: event.currentTarget.hreflang }));
});

function setTheme(theme) {
  const isChosen = theme !== "auto";
  document.documentElement.toggleAttribute("data-theme", isChosen);
  if (isChosen) document.documentElement.dataset.theme = theme;
  document.cookie = `theme=${theme}; path=/; max-age=${isChosen ? 31536000 : 0}; samesite=lax`;
  chart.recreate();
}

function setZone(chosen) {
  zone = chosen;
  localStorage.setItem("zone", zone);
  localize(document);
  chart.recreate();
  connect();
}

$("dialog").addEventListener("pointerdown", ({ clientX, clientY, currentTarget }) => {
  const { left, right, top, bottom } = currentTarget.getBoundingClientRect();
  if (clientX < left || clientX > right || clientY < top || clientY > bottom) currentTarget.close("");
});

$("grid-scroll").addEventListener("keydown", (event) => grid.onKey(event));
$("grid-scroll").addEventListener("pointerdown", (event) => grid.onPress(event));
$("grid-scroll").addEventListener("focusin", (event) => {
  const slot = event.target.dataset?.slot;
  if (slot && slot !== grid.active) { grid.active = slot; grid.refresh(); }
});

$("chart").addEventListener("keydown", (event) => {
  const kind = { ArrowLeft: "earlier", ArrowRight: "later", "+": "in", "=": "in", "-": "out" }[event.key];
  if (kind) chart.move(kind);
  else if (event.key === "Escape" && !chart.isLive) go(changed({ from: null, to: null }));
  else return;
  event.preventDefault();
});

new ResizeObserver(([{ contentRect }]) => chart.plot?.setSize({ width: contentRect.width, height: 260 })).observe($("chart"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.recreate());
addEventListener("popstate", arrive);

$("zone").value = zone;
localize(document);
grid.refresh();
chart.load();
connect();

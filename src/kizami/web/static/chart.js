// The chart of a target's counts: live or of a range, with its figures in sight.

import { backfill } from "./actions.js";
import { go, changed } from "./address.js";
import { drawMarks } from "./marks.js";
import { keepFocus } from "./renew.js";
import { metric } from "./stream.js";
import { $, clock, compact, duration, exactly, getJson, instant, isUtc, query, roughly, say, text, zoned, zoneId } from "./text.js";

export const chart = {
  data: null,
  plot: null,
  holes: null,
  loadedAt: 0,
  hasFailed: false,
  shortest: 30,
  onDraw: () => {},
  extras: [], // further lines: { label, metric, time, values, kind }

  get figure() { return query().get("figure") === "sum" ? "sum" : "mean"; },
  get others() { return (query().get("with") ?? "").split(",").filter(Boolean); },

  get isLive() { return !query().has("from"); },

  async load() {
    this.loadedAt = Date.now();
    const asked = location.search;
    try {
      const [data, ...others] = await Promise.all([metric(), ...this.others].map((name) => getJson(this.address(name))));
      if (asked !== location.search) return;
      this.data = data;
      this.hasFailed = false;
      this.setExtras(others);
      this.draw();
    } catch (error) {
      if (asked !== location.search) return;
      this.hasFailed = true;
      setTimeout(() => { if (this.hasFailed && asked === location.search) this.load(); }, 3000);
      $("chart-summary").textContent = $("readout").textContent = say("chart", "failed", { reason: zoned(error.message) });
    }
  },

  address(name) {
    const view = query();
    // Without a range, the server chooses one that suits the target's interval.
    const range = this.isLive ? { last: view.get("range") } : { from: view.get("from"), to: view.get("to") };
    const wanted = { metric: name, ...range, every: view.get("every"), compare: view.get("compare"), tz: isUtc() ? null : zoneId() };
    return `/api/v1/chart?${new URLSearchParams(Object.entries(wanted).filter(([, value]) => value))}`;
  },

  setExtras(others) {
    const { data, figure } = this;
    const before = data.before ? [{ label: say("chart", "before"), metric: null, time: data.time, values: data.before[figure], kind: "before" }] : [];
    const lines = others.map((other, index) => ({ label: other.metricName, metric: other.metricName, time: other.time, values: other[figure], kind: index + 2 }));
    const extras = [...before, ...lines];
    const shape = (list) => list.map(({ kind }) => kind).join();
    if (shape(extras) !== shape(this.extras)) { this.plot?.destroy(); this.plot = null; }
    this.extras = extras;
    $("series").hidden = !extras.length;
    $("series").replaceChildren(...(extras.length ? [{ label: data.metricName, kind: 1 }, ...extras] : []).map((line) => this.entry(line)));
  },

  // A line's name in its colour; a further metric leads to its page, and can be taken off.
  entry({ label, metric: name, kind }) {
    const entry = text("li", "", `line-${kind}`);
    const leads = name ? text("a", label) : text("span", label);
    if (name) leads.href = `/targets/${encodeURIComponent(name).replaceAll("%2F", "/")}`;
    entry.append(leads);
    if (name) {
      const away = text("a", "×");
      away.href = changed({ with: this.others.filter((other) => other !== name).join(",") });
      away.dataset.view = "";
      away.ariaLabel = say("chart", "remove", { metric: name });
      entry.append(away);
    }
    return entry;
  },

  // Slots that have just arrived. A coarse chart, one of which older slots have changed, and one that has missed
  // more than the newest slots tell, is loaded anew.
  follow(tail, holes) {
    const { data } = this;
    const stale = this.holes !== null && this.holes !== holes;
    this.holes = holes;
    const age = (Date.now() - this.loadedAt) / 1000;
    if (this.hasFailed || !data || !tail || tail.metricName !== data.metricName) return;
    const isFine = data.grainSeconds === tail.grainSeconds && !this.extras.length && !query().get("every");
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
    const columns = ["lowest", "highest", "mean", "sum", "stored", "expected"];
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
      const [low, high] = this.figure === "sum" ? [null, null] : [data.lowest[index], data.highest[index]];
      put(time, data[this.figure][index], low, high);
      if (isAlone) put(time + aside, null, null, null);
    });
    if (!this.extras.length) return columns;
    return uPlot.join([columns, ...this.extras.map(({ time, values }) => [time, values])]);
  },

  draw() {
    const { data } = this;
    this.summarize();
    this.onDraw();
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
    const [line, band, rule, ink] = ["line", "band", "rule", "text"].map(colour);
    const extras = this.extras.map(({ kind }) => (kind === "before"
      ? { stroke: ink, width: 1.25, dash: [5, 4], points: { show: false } }
      : { stroke: colour(`line-${kind}`), width: 1.6, points: { show: false } }));
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1, size: 5 } };
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
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), isUtc() ? "Etc/UTC" : zoneId()),
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7, fill: line },
        bind: { mousedown: (u, target, handler) => (event) => (event.shiftKey ? this.pan(event) : handler(event)) },
      },
      scales: { y: { range: (u, low, high) => this.bounds(low ?? 0, high ?? 0) } },
      axes: [
        { ...axis, values: axisTimes, space: 70, size: 42 },
        { ...axis, size: 52, values: (u, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? compact(tick) : this.isFractional ? exactly(tick) : "")) },
      ],
      series: [
        {},
        { stroke: line, width: 1.75, points: { show: true, size: 5, fill: line, stroke: line, filter: alone } },
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: true, size: 3, fill: line, stroke: line, filter: (u, series) => (this.isBanded ? alone(u, series) : []) } },
        ...extras,
      ],
      bands: [{ series: [3, 2], fill: band }],
      hooks: {
        drawClear: [(u) => this.shadeHoles(u, colour("hole"))],
        draw: [drawMarks],
        setCursor: [(u) => this.readOut(u.cursor.idx)],
        setSelect: [(u) => this.zoomTo(u)],
      },
    }, [[], [], [], [], ...this.extras.map(() => [])], $("chart"));
  },

  // Zero is always in sight; whole numbers have room for one.
  bounds(low, high) {
    const [least, most] = [Math.min(0, low), Math.max(0, high)];
    const top = this.isFractional && most > least ? most : Math.max(1, most);
    return [least * 1.08, (least < 0 ? most : top) * 1.08];
  },

  get isFractional() { return this.data?.highest.some((value) => value !== null && !Number.isInteger(value)); },

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
    else if (!this.isBanded) facts.push([say("chart", "count"), exactly(low)]);
    else {
      facts.push([say("chart", this.figure), roughly(data[this.figure][at])]);
      facts.push([say("chart", "band"), `${exactly(low)} – ${exactly(high)}`]);
      facts.push([say("chart", "stored"), `${data.stored[at]}/${data.expected[at]}`]);
    }
    for (const { label, time, values } of this.extras) {
      const value = values[time.indexOf(data.time[at])];
      if (value != null) facts.push([label, roughly(value)]);
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
    const highs = data.highest.filter((value) => value !== null);
    const stored = sum(data.stored);
    const total = sum(data.sum.map((value) => value ?? 0));
    const least = lows.reduce((low, value) => Math.min(low, value), Infinity);
    const most = highs.reduce((high, value) => Math.max(high, value), -Infinity);
    const told = (value) => (stored ? value : say("unit", "none"));
    const figures = [
      ["lowest", told(exactly(least))], ["mean", told(roughly(total / stored))], ["highest", told(exactly(most))],
      ["total", told(exactly(Math.round(total * 1e6) / 1e6))], ["stored", `${stored.toLocaleString("en")} / ${sum(data.expected).toLocaleString("en")}`],
    ];
    $("chart-summary").textContent = say("chart", stored ? "summary" : "summary_empty", {
      metric: data.metricName,
      stored: stored.toLocaleString("en"),
      expected: sum(data.expected).toLocaleString("en"),
      lowest: exactly(least),
      highest: exactly(most),
      mean: roughly(stored ? total / stored : 0),
    });
    $("figures").replaceChildren(...figures.flatMap(([key, value]) => {
      const box = document.createElement("div");
      box.append(text("dt", say("chart", key)), text("dd", value));
      return [box];
    }));
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

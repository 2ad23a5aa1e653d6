// The page of one target: its chart, its grid, its calendar.

import { act, backfill, onOrder } from "./actions.js";
import { changed, go, onArrival } from "./address.js";
import "./calendar.js";
import { chart } from "./chart.js";
import { onRepaint } from "./frame.js";
import { grid, renewRows } from "./grid.js";
import { connect, onPage } from "./live.js";
import { drawMarks } from "./marks.js";
import { metric } from "./stream.js";
import { $, clock, getJson, instant, instantAt } from "./text.js";

onPage((page) => {
  renewRows(page.rows, page.order);
  chart.follow(page.tail, page.holes);
  if (chart.plot) drawMarks(chart.plot);
});
onRepaint(() => chart.recreate());
onOrder(() => grid.clear());
onArrival(() => {
  connect();
  chart.load();
  grid.clear();
  if (location.hash) $(location.hash.slice(1))?.scrollIntoView();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.move) chart.move(button.dataset.move);
  else if (button?.id === "select-missing") grid.selectMissing();
  else if (button?.id === "clear-selection") grid.clear();
  else if (button?.id === "backfill-range") act(button, () => chart.backfill());
  else if (button?.id === "backfill-selected") act(button, () => backfill({ metric: metric(), slots: [...grid.selected].sort() }));
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

// ---- A range that is typed, and further metrics

function zoned(value) {
  const [year, month, ...rest] = value.split(/[-T:]/).map(Number);
  return instant(instantAt(year, month - 1, ...rest) / 1000);
}

document.addEventListener("submit", (event) => {
  if (!["typed-range", "add-metric"].includes(event.target.id)) return;
  event.preventDefault();
  const typed = Object.fromEntries(new FormData(event.target));
  if (event.target.id === "typed-range") go(changed({ from: zoned(seconds(typed.from)), to: zoned(seconds(typed.to)), range: null }));
  else if (typed.with && typed.with !== metric()) {
    event.target.reset();
    go(changed({ with: [...new Set([...chart.others, typed.with])].join(",") }));
  }
});

const seconds = (value) => (value.length === 16 ? `${value}:00` : value);

// The names that what is typed is a part of, as many as help.
document.addEventListener("input", async ({ target }) => {
  if (!target.matches("#add-metric input") || !target.value) return;
  const { items } = await getJson(`/api/v1/targets?${new URLSearchParams({ search: target.value, limit: 12 })}`);
  $("metric-names").replaceChildren(...items.map(({ metricName }) => new Option("", metricName)));
});

// The fields say what is shown, until somebody types.
function fillRange() {
  const { data } = chart;
  const form = $("typed-range");
  if (!data || form.contains(document.activeElement)) return;
  for (const name of ["from", "to"]) form.elements[name].value = clock(data[name], "full").replace(" ", "T");
}
chart.onDraw = fillRange;

new ResizeObserver(([{ contentRect }]) => chart.plot?.setSize({ width: contentRect.width, height: 260 })).observe($("chart"));

grid.refresh();
chart.load();
connect();

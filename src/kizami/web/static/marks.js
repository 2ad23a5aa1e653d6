// What happened, drawn on the chart: incidents as spans, events as thin marks. The lists below it are where they are from.

const seconds = (moment) => Date.parse(moment) / 1000;

function mark(u, kind, from, to, title) {
  const { min, max } = u.scales.x;
  if (to < min || from > max) return [];
  const [left, right] = [Math.max(from, min), Math.min(to, max)].map((time) => u.valToPos(time, "x"));
  const element = document.createElement("div");
  element.className = `mark ${kind}`;
  element.style.left = `${left}px`;
  element.style.width = `${Math.max(2, right - left)}px`;
  const handle = element.appendChild(document.createElement("i"));
  handle.title = title;
  return [element];
}

export function drawMarks(u) {
  for (const old of u.over.querySelectorAll(".mark")) old.remove();
  const spans = [...document.querySelectorAll("#incidents li[data-from]")].flatMap((row) => {
    const { from, to } = row.dataset;
    return mark(u, "incident", seconds(from), to ? seconds(to) : Date.now() / 1000, row.querySelector(".sentence").textContent);
  });
  const events = [...document.querySelectorAll("#events li[data-at]")].flatMap((row) => {
    const at = seconds(row.dataset.at);
    return mark(u, "event", at, at, row.textContent.trim().replace(/\s+/g, " "));
  });
  u.over.prepend(...spans, ...events);
}

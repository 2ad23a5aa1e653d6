// The grid of slots: moving, selecting, and what is selected.

import { keepFocus, renew } from "./renew.js";
import { $, say } from "./text.js";

export const grid = {
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

// The rows that have changed, and their order.
export function renewRows(rows, order) {
  const body = $("grid-body");
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

// Actions: preview, ask, do, say.

import { show } from "./live.js";
import { goTo, placeOf } from "./renew.js";
import { viewed } from "./stream.js";
import { $, clock, say, text, words, zoned } from "./text.js";

// What a page does when an order has gone out.
let afterOrder = () => {};
export const onOrder = (listener) => { afterOrder = listener; };

// The answer has the page as it is with the change: that is shown at once, whether or not live updates come.
export async function post(path, body) {
  const answer = await fetch(`/api/v1/${path}?${new URLSearchParams({ page: viewed() })}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.detail);
  if (result.page) show(result.page);
  return result;
}

let opener;

export function ask({ heading, facts = [], names = [], note = "", confirm }) {
  const dialog = $("dialog");
  const place = placeOf(opener);
  $("dialog-heading").textContent = heading;
  $("dialog-facts").replaceChildren(...facts.flatMap(([label, value]) => [text("dt", label), text("dd", value)]));
  listNames(names);
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

// More names than this stand in a list of their own, which scrolls.
const NAMED = 3;

function listNames(names) {
  const list = $("dialog-names");
  list.hidden = names.length <= NAMED;
  list.open = false;
  list.querySelector("summary").textContent = say("action", "preview_targets", { n: names.length });
  list.querySelector("ul").replaceChildren(...(list.hidden ? [] : names.map((name) => text("li", name))));
}

let toastTimer;

export function toast(message, failed = false) {
  $("toast").textContent = zoned(message);
  $("toast").classList.toggle("failed", failed);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $("toast").textContent = ""; }, failed ? 12000 : 6000);
}

const namesOf = (metrics) => (metrics.length > NAMED ? say("action", "preview_targets", { n: metrics.length }) : metrics.join(", "));

export async function backfill(wanted) {
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
    names: plan.metrics,
    note: [slots && say("action", "preview_note"), plan.leftOut.length && say("action", "left_out", { names: namesOf(plan.leftOut) })]
      .filter(Boolean).join(" "),
    confirm: slots ? say("action", "confirm") : null,
  });
  if (!agreed) return;
  const done = await post("backfill", { ...wanted, asOf: plan.asOf });
  toast(say("action", "sent", { n: done.sent + done.redriven }));
  afterOrder();
}

async function redrive({ metric, from, to, reason, count }, all) {
  const range = from ? { from, to, reason } : {};
  const agreed = await ask({
    heading: say("action", "redrive_title", { n: Number(count) }),
    facts: [[words.action.preview_target, metric], [words.action.redrive_reason, reason]].filter(([, value]) => value),
    note: say("action", "redrive_note"),
    confirm: say("action", "redrive_confirm"),
  });
  if (!agreed) return;
  const done = await post("dead-letters/redrive", { ...(metric ? { metric } : {}), ...(all ? { all } : range) });
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

async function acknowledge(incident) {
  await post("incidents/acknowledge", { incident });
  toast(say("action", "acknowledged", { number: incident }));
}

async function silence(incident, minutes) {
  const { silencedUntil } = await post("incidents/silence", { incident, minutes });
  toast(say("action", "silenced", { number: incident, time: clock(silencedUntil, "full-minute") }));
}

async function unsilence(incident) {
  await post("incidents/unsilence", { incident });
  toast(say("action", "unsilenced", { number: incident }));
}

const actions = {
  // Without a metric it is about the gaps of all targets in that time.
  "backfill": ({ metric, from, to }) => backfill({ ...(metric ? { metric } : { allGaps: true }), from, to }),
  "backfill-all": ({ metric }) => backfill({ allGaps: true, ...(metric ? { metric } : {}) }),
  "redrive": (about) => redrive(about, false),
  "redrive-all": (about) => redrive(about, true),
  "pause": ({ metric }) => pause(metric),
  "resume": ({ metric }) => resume(metric),
  "acknowledge": ({ incident }) => acknowledge(Number(incident)),
  "silence": ({ incident, minutes }) => silence(Number(incident), Number(minutes)),
  "unsilence": ({ incident }) => unsilence(Number(incident)),
  "dismiss": ({ order }) => post("orders/dismiss", { order: Number(order) }),
};

// A button that is really disabled would lose the focus.
export async function act(button, action) {
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

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.action) act(button, () => actions[button.dataset.action](button.dataset));
  else if (button?.dataset.copy) copy(button);
});

$("dialog").addEventListener("pointerdown", ({ clientX, clientY, currentTarget }) => {
  const { left, right, top, bottom } = currentTarget.getBoundingClientRect();
  if (clientX < left || clientX > right || clientY < top || clientY > bottom) currentTarget.close("");
});

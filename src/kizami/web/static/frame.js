// What every page has: the bar with its choices of time zone, theme and language.

import { changed } from "./address.js";
import { connect } from "./live.js";
import { $, chosenZone, fill, localize, setZone, words, zoneName } from "./text.js";

// What a page draws anew when its colours or its clock change.
const painters = [];
export const onRepaint = (painter) => painters.push(painter);
const repaint = () => { for (const painter of painters) painter(); };

function setTheme(theme) {
  const isChosen = theme !== "auto";
  document.documentElement.toggleAttribute("data-theme", isChosen);
  if (isChosen) document.documentElement.dataset.theme = theme;
  document.cookie = `theme=${theme}; path=/; max-age=${isChosen ? 31536000 : 0}; samesite=lax`;
  repaint();
}

$("theme").addEventListener("change", ({ target }) => setTheme(target.value));
$("zone").addEventListener("change", ({ target }) => {
  setZone(target.value);
  localize(document);
  repaint();
  connect();
});
$("language").addEventListener("click", (event) => {
  event.preventDefault();
  location.assign(changed({ lang: event.currentTarget.hreflang }));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

$("zone").querySelector("[value=local]").textContent = fill(words.zone_local, { zone: zoneName() });
$("zone").append(...(Intl.supportedValuesOf?.("timeZone") ?? []).map((name) => new Option(name, name)));
if (![...$("zone").options].some(({ value }) => value === chosenZone())) $("zone").append(new Option(chosenZone(), chosenZone()));
$("zone").value = chosenZone();
localize(document);

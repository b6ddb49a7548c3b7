// The parts of the page, joined.

if (typeof DecompressionStream === "undefined") {
  byId("summary").textContent = "This page needs a browser from 2023 or later, to unpack its data.";
  return;
}
const data = await readData();
const tables = [makePaths(data, data.paths), makePaths(data, data.chains)];
let chains = 0; // whether paths along the nearest items are shown, or those of the model
const findPath = (i, j) => tables[chains](i, j);
const askServer = window.metricmixPath;
const tip = byId("tip");
let chosen = [], asked = 0, silence = 0;

const map = makeMap(data, byId("map"), {
  onHover(i, place, width) {
    tip.hidden = i < 0;
    if (i < 0) { tip.dataset.item = ""; return; }
    if (tip.dataset.item !== String(i)) {
      tip.dataset.item = i;
      const others = map ? map.others(i) : 0;
      tip.replaceChildren(named(data.ids[i]), ...called(data, i), " · ", ...describe(data, i));
      if (others > 0) tip.append(`; ${others} more here, to be found by name`);
    }
    const [x, y] = place;
    const left = Math.max(4, Math.min(x + 12, width - tip.offsetWidth - 4));
    tip.style.transform = `translate(${left}px, ${y > 60 ? y - tip.offsetHeight - 14 : y + 14}px)`;
  },
  onChoose: (i) => choose(i, false),
  onRefused: () => say("Click the map, or hold Ctrl or ⌘, to zoom with the wheel."),
});

// A few words over the map, for a moment.
function say(words) {
  byId("said").textContent = words;
  byId("said").hidden = false;
  clearTimeout(silence);
  silence = setTimeout(() => { byId("said").hidden = true; }, 2500);
}

function choose(i, seen) {
  if (i < 0) select([], seen);
  else if (chosen.length === 1 && chosen[0] !== i) select([chosen[0], i], seen);
  else select([i], seen);
}

// `seen` says that the map has to show what is chosen, and the path: it was not chosen there.
function select(items, seen) {
  chosen = items;
  const mine = ++asked;
  const show = (found) => {
    if (mine !== asked) return; // something else has been chosen meanwhile
    const nodes = found && found.nodes ? found.nodes.filter((i) => typeof i === "number") : null;
    map.mark(chosen, nodes);
    if (seen) map.contain(nodes || chosen);
    showPanel(data, byId("panel"), chosen, found, {
      onReverse: () => select([...chosen].reverse(), true),
      onPathTo: (j) => select([chosen[0], j], true),
    });
    showEdges(data, byId("edges"), found);
  };
  const found = chosen.length === 2 ? findPath(...chosen) : null;
  if (chosen.length === 2 && !found && askServer) {
    show("Computing the path …");
    askServer(...chosen, chains).then((record) => show(pathFromRecord(record)), () => show(
      "The path could not be computed: the server of this page does not answer any more; start “metricmix explore” again."));
  } else show(found);
  const address = hashOf(data, chosen);
  if (location.hash !== address) history.replaceState(null, "", address || location.pathname + location.search);
}

function fillLegend() {
  const buttons = data.classes.map((name, c) => {
    const count = data.labels.reduce((sum, label) => sum + (label === c ? 1 : 0), 0);
    const button = element("button", [markPicture(data.palette, c, 1, 0), named(name),
      element("small", String(count))], { type: "button", "aria-pressed": "false" });
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      buttons.forEach((other) => other.setAttribute("aria-pressed", "false"));
      button.setAttribute("aria-pressed", String(on));
      map.speakOf(on ? c : -1);
    });
    return button;
  });
  byId("legend").append(...buttons.map((button) => element("li", button)));
  const grey = ["#595959"];
  const key = (text, given, misfit) => byId("key").append(
    element("li", [markPicture(grey, 0, given, misfit), element("span", text)]));
  grey.ordered = data.palette.ordered;
  const words = data.target
    ? ["filled: target known", "hollow: target predicted", "crossed: known, but far from what the rule predicts (misfit)"]
    : ["filled: label given", "hollow: label found", "crossed: given, but the rule disagrees (misfit)"];
  key(words[0], 1, 0);
  if (data.given.includes(0)) key(words[1], 0, 0);
  if (data.misfit.includes(1)) key(words[2], 1, 1);
}

makeSearch(data, byId("controls"), byId("search"), byId("found"), {
  onFound(i) { map.hover(i); choose(i, true); },
  onMissing: (text) => say(`No item has “${text}” in its name.`),
});
const optionOf = (view, k) => element("option",
  view.chains ? view.name : k ? `${view.name} alone` : `${view.name} (learned)`, { value: k });
const options = data.views.map(optionOf);
options.sort((a, b) => (b.value === "0") - (a.value === "0")
  || data.views[b.value].chains - data.views[a.value].chains || a.value - b.value);
byId("view").append(...options);
byId("view").addEventListener("change", (event) => {
  const view = Number(event.target.value), before = chains;
  map.show(view);
  chains = data.views[view].chains ? 1 : 0;
  if (chains !== before && chosen.length === 2) select(chosen, false);
});
byId("closer").addEventListener("click", () => map.scale(1.5));
byId("farther").addEventListener("click", () => map.scale(1 / 1.5));
byId("whole").addEventListener("click", () => map.whole());
byId("clear").addEventListener("click", () => choose(-1, false));
window.addEventListener("resize", () => fitEdges(byId("edges")));
window.addEventListener("hashchange", () => select(itemsOfHash(data, location.hash), true));

const given = data.given.reduce((sum, one) => sum + one, 0);
const shown = data.sampleOf ? `A sample of ${data.ids.length} of ${data.sampleOf} items` : `${data.ids.length} items`;
byId("summary").textContent = (data.target ? `${shown}, ${given} with a known target, `
  : `${shown}, ${given} with a given label, ${data.classes.length} classes, `) +
  `${data.weights.length} sources` +
  `${data.paths && data.paths.directed ? ", directed: the distance back may differ" : ""}.`;
fillLegend();
showFigures(data, byId("figures"));
select(itemsOfHash(data, location.hash), true);
document.documentElement.dataset.ready = "yes";

// The parts of the page, joined.

if (typeof DecompressionStream === "undefined") {
  byId("summary").textContent = "This page needs a browser from 2023 or later to unpack its data.";
  return;
}
const data = await readData();
const tables = [makePaths(data, data.paths), makePaths(data, data.chains)];
let chains = 0; // whether paths along the nearest items are shown, or those of the model
const findPath = (i, j) => tables[chains](i, j);
const askServer = window.metricmixPath;
const tip = byId("tip");
const sheet = makeSheet(byId("sheet"), byId("grip"));
const byTouch = matchMedia("(hover: none)");
let chosen = [], asked = 0, silence = 0;

const map = makeMap(data, byId("map"), {
  onHover(i, place, frame, line) {
    tip.hidden = i < 0;
    if (i < 0) { tip.dataset.item = ""; return; }
    if (tip.dataset.item !== String(i)) {
      tip.dataset.item = i;
      const others = map ? map.others(i) : 0;
      tip.replaceChildren(named(data.ids[i]), ...called(data, i), " · ", ...describe(data, i));
      if (others > 0) tip.append(`; ${counted(others, "more item")} at this position (use Find)`);
    }
    const [x, y] = placeTip(tip.offsetWidth, tip.offsetHeight, place, frame, line);
    tip.style.transform = `translate(${x}px, ${y}px)`;
  },
  onChoose(i) { choose(i, false); if (i >= 0) slideUp(); },
  onMissed: () => say(`No item here. ${byTouch.matches ? "Tap" : "Click"} closer to a mark.`),
  onRefused: () => say("To zoom with the wheel, click the map first or hold Ctrl (⌘)."),
});

function slideUp() {
  sheet.open(byId("map").getBoundingClientRect().top + map.lowest());
}

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
function select(items, seen, isExample = false) {
  chosen = items;
  const mine = ++asked;
  const show = (found) => {
    if (mine !== asked) return; // something else has been chosen meanwhile
    const nodes = found && found.nodes ? found.nodes.filter((i) => typeof i === "number") : null;
    map.mark(chosen, nodes);
    if (seen) map.contain(nodes || chosen);
    byId("example").hidden = !isExample;
    if (isExample) byId("example").replaceChildren(element("strong", "Example: "), ...aboutExample(data, found));
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
      "The path could not be computed: the server of this page does not answer. Start “metricmix explore” again."));
  } else show(found);
  if (!items.length) sheet.close();
  if (!isExample) writeAddress();
}

function writeAddress(zoom = null) {
  const address = addressOf(data, { chosen, view: map.current(), label: map.highlighted(), zoom });
  if (location.hash !== address) history.replaceState(null, "", address || location.pathname + location.search);
}

const buttons = data.classes.map((name, c) => {
  const count = data.labels.reduce((sum, label) => sum + (label === c ? 1 : 0), 0);
  const button = element("button", [markPicture(data.palette, c, 1, 0), named(name),
    element("small", String(count))], { type: "button", "aria-pressed": "false" });
  button.addEventListener("click", () => {
    highlight(map.highlighted() === c ? -1 : c);
    writeAddress();
  });
  return button;
});

function highlight(label) {
  buttons.forEach((button, c) => button.setAttribute("aria-pressed", String(c === label)));
  map.highlight(label);
}

function fillLegend() {
  byId("legend").append(...buttons.map((button) => element("li", button)));
  const grey = ["#595959"];
  const key = (text, given, misfit) => byId("key").append(
    element("li", [markPicture(grey, 0, given, misfit), element("span", text)]));
  grey.ordered = data.palette.ordered;
  const words = data.target
    ? ["filled: known target", "hollow: predicted target", "crossed: misfit, the known target is far from the prediction"]
    : ["filled: given label", "hollow: predicted label", "crossed: misfit, the given label differs from the prediction"];
  key(words[0], 1, 0);
  if (data.given.includes(0)) key(words[1], 0, 0);
  if (data.misfit.includes(1)) key(words[2], 1, 1);
}

makeSearch(data, byId("controls"), byId("search"), byId("found"), {
  onFound(i) { map.hover(i); choose(i, true); },
  onMissing: (text) => say(`No item matches “${text}”.`),
});
const options = data.views.map((_, k) => element("option", viewName(data, k), { value: k }));
options.sort((a, b) => (b.value === "0") - (a.value === "0")
  || data.views[b.value].chains - data.views[a.value].chains || a.value - b.value);
byId("view").append(...options);
byId("view").addEventListener("change", (event) => {
  showView(Number(event.target.value));
  writeAddress();
});

function showView(view) {
  const before = chains;
  byId("view").value = view;
  map.show(view);
  chains = data.views[view].chains ? 1 : 0;
  if (chains !== before && chosen.length === 2) select(chosen, false);
}

byId("closer").addEventListener("click", () => map.scale(1.5));
byId("farther").addEventListener("click", () => map.scale(1 / 1.5));
byId("whole").addEventListener("click", () => map.whole());
byId("clear").addEventListener("click", () => choose(-1, false));
const nameOfFile = (ending) => fileName([data.title, map.current() ? data.views[map.current()].name : ""], ending);
byId("png").addEventListener("click", async () => download(nameOfFile("png"), await drawnPng(data, map)));
byId("svg").addEventListener("click", () => download(nameOfFile("svg"), drawnSvg(data, map), "image/svg+xml"));
byId("items").addEventListener("click", () =>
  download(nameOfFile("csv"), csvOf(itemRows(data, map.current())), "text/csv"));
byId("link").addEventListener("click", async () => {
  writeAddress(map.zoomed());
  try {
    await navigator.clipboard.writeText(location.href);
    say("Link copied.");
  } catch {
    say("The address bar now has a link to this view.");
  }
});
window.addEventListener("resize", () => fitEdges(byId("edges")));
window.addEventListener("hashchange", () => follow(readAddress(data, location.hash)));

// Shows what an address asks for; without an address, the example.
function follow(view) {
  if (view && view.view !== map.current()) showView(view.view);
  if (view) highlight(view.label);
  if (view) {
    select(view.chosen, !view.zoom);
    if (view.zoom) map.zoomTo(view.zoom);
    if (view.missing) say("This link names an item that is not on this page.");
  } else select([], true);
}

const given = data.given.reduce((sum, one) => sum + one, 0);
const n = data.ids.length.toLocaleString("en");
const shown = data.sampleOf ? `A sample of ${n} of ${data.sampleOf.toLocaleString("en")} items` : counted(n, "item");
byId("summary").textContent = `${shown}, ${data.target ? `${given} with a known target`
  : `${given} labelled, ${counted(data.classes.length, "class", "classes")}`}, ${counted(data.weights.length, "source")}` +
  `${data.paths && data.paths.directed ? "; directed: the distance from A to B can differ from that from B to A" : ""}.`;
byId("headline").hidden = !data.headline;
byId("headline").append(named(data.headline || ""));
byId("intro").textContent = "Each mark is an item; items close together on the map are usually similar in the learned metric, " +
  "but a flat map cannot keep all distances. " +
  "Choose two items to see the shortest path between them and what each source adds to its length. " +
  (data.accuracies.length ? "Accuracy and the weights of the sources are below the map."
    : "The weights of the sources are below the map.");
fillLegend();
showFigures(data, byId("figures"));
const wanted = readAddress(data, location.hash);
const opening = data.example && findPath(...data.example.items);
if (wanted || !opening) follow(wanted); else select([...data.example.items], true, true);
document.documentElement.dataset.ready = "yes";

// The parts of the page, joined.

const data = readData();
const byId = (id) => document.getElementById(id);
const findPath = makePaths(data);
const tip = byId("tip");
let chosen = [];

const map = makeMap(data, byId("map"), {
  onHover(i, place, width) {
    tip.hidden = i < 0;
    if (i < 0) return;
    const text = `${data.ids[i]} · ${describe(data, i)}`;
    if (tip.textContent !== text) tip.textContent = text;
    const [x, y] = place;
    const left = Math.max(4, Math.min(x + 12, width - tip.offsetWidth - 4));
    tip.style.transform = `translate(${left}px, ${y > 60 ? y - tip.offsetHeight - 14 : y + 14}px)`;
  },
  onChoose: choose,
});

function choose(i) {
  if (i < 0) chosen = [];
  else if (chosen.length === 1 && chosen[0] !== i) chosen = [chosen[0], i];
  else chosen = [i];
  const found = chosen.length === 2 ? findPath(...chosen) : null;
  map.mark(chosen, found && found.nodes);
  showPanel(data, byId("panel"), chosen, found);
}

function fillLegend() {
  const add = (text, label, given, misfit) => {
    const line = element("li"), canvas = element("canvas", undefined, { width: 36, height: 36 });
    const context = canvas.getContext("2d");
    context.setTransform(2, 0, 0, 2, 18, 18);
    drawMark(context, label < 0 ? ["#595959"] : data.palette, Math.max(0, label), 6, given, misfit);
    line.append(canvas, element("span", text));
    byId("legend").append(line);
  };
  data.classes.forEach((name, c) => add(name, c, 1, 0));
  add("hollow: label found", -1, 0, 0);
  if (data.misfit.includes(1)) add("crossed: the rule disagrees", -1, 1, 1);
}

const SUGGESTED = 20;
const folded = data.ids.map((id) => id.toLowerCase());

function suggest() {
  const text = byId("search").value.toLowerCase();
  const hits = [];
  for (let i = 0; text && i < folded.length && hits.length < SUGGESTED; i++) {
    if (folded[i].includes(text)) hits.push(i);
  }
  byId("found").replaceChildren(...hits.map((i) => element("option", undefined, { value: data.ids[i] })));
  const own = data.ids.indexOf(byId("search").value);
  const exact = own >= 0 ? own : folded.indexOf(text);
  return exact >= 0 ? exact : hits.length ? hits[0] : -1;
}

function go(i) {
  map.find(i);
  choose(i);
  byId("search").select();
}

data.views.forEach((view, k) => byId("view").append(element("option", view.name, { value: k })));
byId("view").addEventListener("change", (event) => map.show(Number(event.target.value)));
byId("search").addEventListener("input", (event) => {
  const i = suggest();
  const picked = !event.inputType || event.inputType === "insertReplacementText";
  if (picked && i >= 0 && data.ids[i] === byId("search").value) go(i); // from the list
});
byId("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  const i = suggest();
  if (i >= 0) go(i);
});
byId("closer").addEventListener("click", () => map.scale(1.5));
byId("farther").addEventListener("click", () => map.scale(1 / 1.5));
byId("whole").addEventListener("click", () => map.whole());
byId("clear").addEventListener("click", () => choose(-1));

const given = data.given.reduce((sum, one) => sum + one, 0);
byId("summary").textContent = `${data.ids.length} items, ${given} with a given label, ` +
  `${data.classes.length} classes, ${data.weights.length} sources.`;
fillLegend();
showPanel(data, byId("panel"), chosen, null);
showFigures(data, byId("figures"));

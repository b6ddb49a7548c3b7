// The figures below the map: accuracy, weights, confusion, how it was made; then, folded up, the
// certificate and the convergence.

function card(title, ...content) {
  return element("section", [typeof title === "string" ? element("h2", title) : title, ...content], { class: "card" });
}

const MOST_LEVEL = 4, LONG_NAME = 8; // columns with level names, letters of a name
const EXPLAINED = [
  ["equal weights", "Equal weights: every source has the same weight; nothing is learned."],
  ["best single source", "The best single source is chosen on the training labels, so it can score lower " +
    "than the best of the sources below."],
];
const INTERVAL = "Line: 90 % interval of the score on items without a label.";
const NEGATIVE = "A negative weight means that the source counts in reverse: other things being equal, the " +
  "farther apart it puts two items, the closer they are in the learned metric.";

function confusionTable(data) {
  const most = Math.max(1, ...data.confusion.counts.flat());
  const rows = data.confusion.counts.map((counts, c) => [named(data.classes[c]), ...counts.map(String)]);
  const table = plainTable(["true \\ predicted", ...data.classes.map(named)], rows);
  table.querySelectorAll("tbody tr").forEach((line, c) => {
    line.querySelectorAll("td").forEach((cell, k) => {
      const shade = k === c ? "86, 180, 233" : "230, 159, 0";
      cell.style.backgroundColor = `rgba(${shade}, ${(0.75 * data.confusion.counts[c][k]) / most})`;
      if (k === c) cell.classList.add("right");
    });
  });
  const long = data.classes.some((name) => name.length > LONG_NAME);
  if (long || data.classes.length > MOST_LEVEL) table.classList.add("upright");
  return scrolling(table, "Confusion table");
}

// A row per class or region, a column per source; the darker, the larger among all.
function localTable(data) {
  const { regions, values } = data.local;
  const most = Math.max(...values.flat().map(Math.abs)) || 1;
  const rows = values.map((line, c) => [named(regions[c]), ...line.map((value) => short(value, 2))]);
  const table = plainTable(["", ...data.weights.map((weight) => named(weight.name))], rows);
  table.querySelectorAll("tbody tr").forEach((line, c) => {
    line.querySelectorAll("td").forEach((cell, r) => {
      cell.style.backgroundColor = `rgba(86, 180, 233, ${(0.75 * Math.abs(values[c][r])) / most})`;
    });
  });
  table.classList.add("upright");
  return scrolling(table, "Weights by class or region");
}

function curve({ iteration, objective }) {
  const points = iteration.map((t, k) => [t, objective[k]]).filter(([, value]) => value !== null);
  const xs = points.map(([t]) => t), ys = points.map(([, value]) => value);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const picture = svg("svg", { viewBox: "0 0 300 110", role: "img",
    "aria-label": `objective from ${short(ys[0])} to ${short(ys[ys.length - 1])}` });
  const d = points.map(([t, value], k) => `${k ? "L" : "M"}${
    (50 + (240 * (t - left)) / (right - left || 1)).toFixed(1)} ${
    (85 - (75 * (value - low)) / (high - low || 1)).toFixed(1)}`).join("");
  picture.append(svg("path", { d: "M50 5V90H295", fill: "none", stroke: "#8a8a8a" }),
    svg("path", { d, fill: "none", stroke: "#0072B2", "stroke-width": 2, "stroke-linejoin": "round" }));
  const label = (x, y, text, anchor) => {
    const made = svg("text", { x, y, "text-anchor": anchor, "font-size": 10, fill: "#595959" });
    made.textContent = text;
    picture.append(made);
  };
  label(46, 14, short(high), "end");
  label(46, 88, short(low), "end");
  label(50, 103, String(left), "middle");
  label(292, 103, `iteration ${right}`, "end");
  return picture;
}

function accuracyCard(data) {
  const numeric = data.target !== null;
  const end = (value) => (numeric ? value.toFixed(2) : (100 * value).toFixed(0));
  const table = (ones) => barTable(ones.map((one) => ({
    ...one, note: one.lower === null ? "" : `${end(one.lower)} to ${end(one.upper)}${numeric ? "" : " %"}`,
  })), numeric ? (value) => (value === null ? "–" : value.toFixed(3)) : percent, 1);
  const methods = data.accuracies.filter((one) => !one.single);
  const singles = data.accuracies.filter((one) => one.single);
  const title = numeric ? "R² on held-out targets" : "Accuracy on held-out labels";
  const rows = () => [["method", numeric ? "r2" : "accuracy", "lower", "upper"],
    ...data.accuracies.map((one) => [one.single ? `${one.name} alone` : one.name, one.value, one.lower, one.upper])];
  const made = card(heading("h2", data, title, rows));
  if (methods.length) made.append(table(methods));
  if (singles.length) made.append(element("h3", "Each source alone"), table(singles));
  if (data.accuracies.some((one) => one.lower !== null)) made.append(note(INTERVAL));
  const names = data.accuracies.map((one) => one.name);
  made.append(...EXPLAINED.filter(([name]) => names.includes(name)).map(([, words]) => note(words)));
  return made;
}

function certificate({ violation, triangles, holds }) {
  const amount = element("p", [
    element("span", violation ? violation.toExponential(1) : short(violation), { class: "number" }),
    " largest violation of the triangle inequality"]);
  return [element("h3", "Certificate"), amount, note(
    `${triangles.toLocaleString("en")} triangle inequalities checked: ${holds
      ? "the distances are a metric, up to rounding." : "the distances are NOT a metric."} In a metric, no path ` +
    "through a third item is shorter than the distance itself.")];
}

function showFigures(data, place) {
  const bySize = [...data.weights].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const interval = (w) => (w.lower === null ? "" : `${short(w.lower, 3)} to ${short(w.upper, 3)}`);
  if (data.accuracies.length) place.append(accuracyCard(data));
  const weightRows = () => [["source", "weight", "lower", "upper"],
    ...bySize.map((weight) => [weight.name, weight.value, weight.lower, weight.upper])];
  place.append(card(heading("h2", data, "Weights of the sources", weightRows),
    barTable(bySize.map((weight) => ({ ...weight, note: interval(weight) }))),
    note(data.intervals ? `Bar: the weight. Line: its ${data.intervals}.` : "Bar: the weight."),
    ...(data.weights.some((weight) => weight.value < 0) ? [note(NEGATIVE)] : [])));
  if (data.local) {
    const rows = () => [["", ...data.weights.map((weight) => weight.name)],
      ...data.local.values.map((line, c) => [data.local.regions[c], ...line])];
    place.append(card(heading("h2", data, "Weights by class or region", rows), localTable(data),
      note("The weights of an edge are the mean of those of its two items; the bars show means over all items.")));
  }
  let confusion = null;
  if (data.confusion) {
    const rows = () => [["true", ...data.classes], ...data.confusion.counts.map((line, c) => [data.classes[c], ...line])];
    confusion = card(heading("h2", data, "Confusion matrix", rows), confusionTable(data), note(data.confusion.how));
    place.append(confusion);
  }
  const details = [];
  if (data.certificate) details.push(...certificate(data.certificate));
  if (data.convergence && data.convergence.objective.filter((value) => value !== null).length > 1) {
    details.push(element("h3", "Convergence"), curve(data.convergence), note(data.convergence.status));
  }
  const made = [];
  if (data.facts.length) made.push(definitions(data.facts.map((fact) => fact.map(named))));
  if (data.command) made.push(element("pre", data.command, { tabindex: 0 }));
  if (made.length) place.append(card("How it was made", ...made));
  if (details.length) {
    const folded = element("details", [element("summary", "Details: certificate and convergence"), ...details],
      { class: "card", id: "details" });
    folded.open = Boolean(data.certificate && !data.certificate.holds);
    place.append(folded);
  }
  if (!confusion) return;
  const next = confusion.nextElementSibling;
  giveRoom(confusion, place, next);
  window.addEventListener("resize", () => giveRoom(confusion, place, next));
}

// A table that is cut off in a column of cards gets all columns, below the others.
function giveRoom(made, place, next) {
  made.classList.remove("wide");
  place.insertBefore(made, next);
  const all = made.offsetWidth === place.clientWidth;
  if (all || !isCutOff(made.querySelector(".scroll"))) return;
  made.classList.add("wide");
  place.append(made);
}

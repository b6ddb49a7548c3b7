// The side panel: what is chosen, the path between two items, and where its length comes from.

const LINK = "link (every edge)";

function itemLine(data, i, ...more) {
  const mark = markPicture(data.palette, data.labels[i], data.given[i], data.misfit[i]);
  return element("li", [mark, element("span", [named(data.ids[i]), ...more])]);
}

// `found` is a path, null if it is not at hand, or a sentence that stands for it.
function showPanel(data, panel, chosen, found, onReverse) {
  panel.replaceChildren();
  if (!chosen.length) {
    panel.append(element("h2", "Paths"),
      element("p", "Choose two items on the map, or find them by name.", { class: "note" }));
    return;
  }
  if (chosen.length === 1) {
    const [i] = chosen;
    panel.append(element("h2", named(data.ids[i])),
      element("ul", itemLine(data, i, ": ", ...describe(data, i)), { class: "items" }),
      element("p", "Choose a second item to see the path to it.", { class: "note" }));
    return;
  }
  const [i, j] = chosen;
  panel.append(element("h2", [named(data.ids[i]), " → ", named(data.ids[j])]));
  if (typeof found === "string") {
    panel.append(element("p", found, { id: "told" }));
  } else if (found) {
    showPath(data, panel, found);
  } else {
    panel.append(element("p", ["The path between these two is not inside this file, which holds " +
      "those to the nearest items only; ", element("code", "metricmix explore"),
    " with the model's folder computes any."], { id: "told" }));
  }
  if (data.paths && data.paths.directed) {
    const back = element("button", "The other way", { type: "button", id: "reverse" });
    back.addEventListener("click", onReverse);
    panel.append(element("p", back));
  }
}

function showPath(data, panel, found) {
  const hops = found.edges.length;
  const digits = decimalsOf(found.length);
  const number = (value) => value.toFixed(digits);
  const steps = found.nodes.map((node, k) =>
    itemLine(data, node, k ? `, ${short(found.edges[k - 1].length)} further` : ""));
  const rows = data.weights.map((weight, r) => ({ name: weight.name, value: found.totals[r] }));
  rows.push({ name: LINK, value: found.link });
  rows.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  panel.append(
    element("p", [element("span", short(found.length), { class: "number", id: "length" }),
      ` in ${hops} ${hops === 1 ? "edge" : "edges"}`]),
    element("ol", steps, { class: "items", id: "steps" }),
    element("h2", "Contributions"),
    element("div", barTable(rows, number), { id: "contributions" }));
  if (hops < 2) return;
  const head = ["edge", "length", ...data.weights.map((weight) => named(weight.name)), LINK];
  const lines = found.edges.map(({ from, to, length, parts }) =>
    [[named(data.ids[from]), " → ", named(data.ids[to])], short(length), ...parts.map(number)]);
  panel.append(element("h2", "Edge by edge"),
    element("div", scrolling(plainTable(head, lines), "Contributions to each edge"), { id: "edges" }));
}

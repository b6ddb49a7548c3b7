// The side panel: what is chosen, the path between two items, and where its length comes from.

const LINK = "link (every edge)";

// Items that a path goes through but a sample does not show have an id in place of a number.
const idOf = (data, i) => named(typeof i === "string" ? i : data.ids[i]);

function itemLine(data, i, ...more) {
  if (typeof i === "string") {
    return element("li", element("span", [idOf(data, i), " (not in this sample)", ...more]));
  }
  const mark = markPicture(data.palette, data.labels[i], data.given[i], data.misfit[i]);
  return element("li", [mark, element("span", [named(data.ids[i]), ...called(data, i), ...more])]);
}

// What is known of one item, and the way to the nearest one whose label was given.
function aboutItem(data, i, onPathTo) {
  const mark = markPicture(data.palette, data.labels[i], data.given[i], data.misfit[i]);
  const known = data.target
    ? [["Target", [mark, labelOf(data, i), data.given[i] ? " (known)" : " (predicted)"]]]
    : [["Label", [mark, labelOf(data, i), data.given[i] ? " (given)" : " (found)"]]];
  if (data.target && data.given[i]) known.push(["Predicted without it", short(data.predicted[i])]);
  if (data.confidence) {
    const how = data.given[i] ? " by the rule, without this label" : "";
    known.push(["Confidence", percent(data.confidence[i]) + how]);
  }
  if (data.misfit[i] && data.prefers) known.push(["The rule prefers", named(data.classes[data.prefers[i]])]);
  const near = data.nearest ? data.nearest[i] : -1;
  if (near >= 0) {
    const button = element("button", [named(data.ids[near]), ...called(data, near)],
      { type: "button", id: "nearest" });
    button.addEventListener("click", () => onPathTo(near));
    known.push([data.target ? "Nearest known item" : "Nearest labelled item", [button, " ", labelOf(data, near)]]);
  }
  return definitions(known);
}

// `found` is a path, null if it is not at hand, or a sentence that stands for it.
function showPanel(data, panel, chosen, found, { onReverse, onPathTo }) {
  panel.replaceChildren();
  if (!chosen.length) {
    panel.append(element("h2", "Paths"),
      note("Choose two items on the map, or find them by name."));
    return;
  }
  if (chosen.length === 1) {
    const [i] = chosen;
    const title = called(data, i);
    panel.append(element("h2", named(data.ids[i])), ...(title.length ? [element("p", title)] : []),
      aboutItem(data, i, onPathTo), note("Choose a second item to see the path to it."));
    return;
  }
  const [i, j] = chosen;
  panel.append(element("h2", [named(data.ids[i]), " → ", named(data.ids[j])]));
  if (typeof found === "string") {
    panel.append(element("p", found, { id: "told" }));
  } else if (found) {
    showPath(data, panel, found);
  } else {
    const held = data.paths ? "those to the nearest items only" : "a sample of the items and no paths";
    panel.append(element("p", ["The path between these two is not inside this file, which holds " +
      `${held}; `, element("code", "metricmix explore"),
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
    itemLine(data, node, k ? `, ${short(found.edges[k - 1].length)} further` : "",
      ...(k && found.edges[k - 1].said ? [element("small", named(found.edges[k - 1].said),
        { class: "said" })] : [])));
  const rows = data.weights.map((weight, r) => ({ name: weight.name, value: found.totals[r] }));
  rows.push({ name: LINK, value: found.link });
  rows.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  panel.append(
    element("p", [element("span", short(found.length), { class: "number", id: "length" }),
      ` in ${hops} ${hops === 1 ? "edge" : "edges"}`]),
    element("ol", steps, { class: "items", id: "steps" }),
    element("h2", "Contributions"),
    element("div", barTable(rows, number), { id: "contributions" }),
    note("Link: the length every edge has, also where no source says anything."));
}

// The edges of a path, one by one, over the whole width of the page; nothing for a single edge.
function showEdges(data, place, found) {
  place.replaceChildren();
  place.hidden = !found || !found.edges || found.edges.length < 2;
  if (place.hidden) return;
  const digits = decimalsOf(found.length);
  const number = (value) => value.toFixed(digits);
  const head = ["edge", "length", ...data.weights.map((weight) => named(weight.name)), LINK];
  const lines = found.edges.map(({ from, to, length, parts }) =>
    [[idOf(data, from), " → ", idOf(data, to)], short(length), ...parts.map(number)]);
  place.append(element("h2", "Edge by edge"),
    scrolling(plainTable(head, lines), "Contributions to each edge"));
  fitEdges(place);
}

// Names of columns upright where the table would be cut off.
function fitEdges(place) {
  const scroller = place.querySelector(".scroll");
  if (!scroller) return;
  const { classList } = scroller.firstChild;
  classList.remove("upright");
  classList.toggle("upright", isCutOff(scroller));
}

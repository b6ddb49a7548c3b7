// The side panel: what is chosen, the path between two items, and where its length comes from.

const LINK = "link (every edge)";
// The numbers of the sources that add anything to any path.
const counting = (data) => data.weights.flatMap((weight, r) => (weight.value !== 0 || data.local ? [r] : []));

const share = (value) => `${Math.min(99, Math.floor(100 * value))} %`;

// Whether two items are drawn farther apart than a quarter of the map.
function drawnApart(data, i, j) {
  const { coordinates: at, span } = data.views[0];
  return Math.hypot(at[2 * i] - at[2 * j], at[2 * i + 1] - at[2 * j + 1]) > span / 4;
}

// What is surprising about the path on which the page opens, and how the map draws it.
function aboutExample(data, found) {
  const { kind, items: [i, j] } = data.example;
  const told = surprise(data, found);
  if (kind === "shortcut" || !drawnApart(data, i, j)) return told;
  return [...told, " The flat map draws them far apart, since it cannot keep all distances."];
}

function surprise(data, found) {
  const { kind, items: [i, j], nearer, farther, source, brought_by: by, direct } = data.example;
  const [a, b] = [i, j].map((item) => {
    const title = data.about[item] && data.about[item] !== data.ids[item] ? ` (${cut(data.about[item], 40)})` : "";
    return named(data.ids[item] + title);
  });
  const inner = found.nodes.length - 2, others = `${inner} other ${inner === 1 ? "item" : "items"}`;
  if (kind === "detour") {
    const where = data.weights.length > 1 ? "every single source" : "the source";
    return [a, " and ", b, ` are farther apart than ${share(farther)} of all pairs in ${where}. In the learned ` +
      `metric they are closer than ${share(nearer)} of all pairs, because the shortest path goes through ${others}.`];
  }
  if (kind === "shortcut") {
    return ["The direct edge between ", a, " and ", b, ` has length ${short(direct)}. The path through ${others} is ` +
      `shorter: ${short(found.length)}.`];
  }
  if (kind === "source") {
    return [a, " and ", b, ` are farther apart than ${share(farther)} of all pairs according to `, named(data.weights[source].name),
      `, the source with the largest weight. They are still closer than ${share(nearer)} of all pairs in the learned ` +
      "metric, mainly because of ", named(data.weights[by].name), "."];
  }
  if (kind === "misfit" && data.target) {
    return ["The target of ", a, ` is ${short(data.target[i])}, but the prediction without it is ${short(data.predicted[i])}. ` +
      "Its nearest item with a known target is ", b, ` (${short(data.target[j])}).`];
  }
  if (kind === "misfit") {
    return [a, " is labelled ", labelOf(data, i), ", but the prediction without this label is ",
      data.prefers ? named(data.classes[data.prefers[i]]) : "another one", ". Its nearest labelled item is ", b, " (", labelOf(data, j), ")."];
  }
  return ["The nearest ", data.target ? "item with a known target" : "labelled item", " of ", a, " is ", b, "."];
}

// Items that a path goes through but a sample does not show have an id in place of a number.
const idOf = (data, i) => named(typeof i === "string" ? i : data.ids[i]);

function itemLine(data, i, ...more) {
  if (typeof i === "string") {
    return element("li", element("span", [idOf(data, i), " (not in this sample)", ...more]));
  }
  const mark = markPicture(data.palette, data.labels[i], data.given[i], data.misfit[i]);
  return element("li", [mark, element("span", [named(data.ids[i]), ...called(data, i), ...more])]);
}

// What is known about one item, and the nearest one whose label was given.
function aboutItem(data, i, onPathTo) {
  const mark = markPicture(data.palette, data.labels[i], data.given[i], data.misfit[i]);
  const known = data.target
    ? [["Target", [mark, labelOf(data, i), data.given[i] ? " (known)" : " (predicted)"]]]
    : [["Label", [mark, labelOf(data, i), data.given[i] ? " (given)" : " (predicted)"]]];
  if (data.target && data.given[i]) known.push(["Predicted without this value", short(data.predicted[i])]);
  if (data.confidence) {
    const how = data.given[i] ? " (without this label)" : "";
    known.push(["Confidence", percent(data.confidence[i]) + how]);
  }
  if (data.misfit[i] && data.prefers) known.push(["Predicted without this label", named(data.classes[data.prefers[i]])]);
  const near = data.nearest ? data.nearest[i] : -1;
  if (near >= 0) {
    const button = element("button", [named(data.ids[near]), ...called(data, near)],
      { type: "button", id: "nearest" });
    button.addEventListener("click", () => onPathTo(near));
    known.push([data.target ? "Nearest item with a known target" : "Nearest labelled item", [button, " ", labelOf(data, near)]]);
  }
  return definitions(known);
}

// `found` is a path, null if it is not at hand, or a sentence that stands for it.
function showPanel(data, panel, chosen, found, { onReverse, onPathTo }) {
  panel.replaceChildren();
  if (!chosen.length) {
    panel.append(element("h2", "Shortest path"),
      note("Choose two items on the map, or find them by name."));
    return;
  }
  if (chosen.length === 1) {
    const [i] = chosen;
    const title = called(data, i);
    panel.append(element("h2", named(data.ids[i])), ...(title.length ? [element("p", title)] : []),
      aboutItem(data, i, onPathTo), note("Choose a second item to see the shortest path to it."));
    return;
  }
  const [i, j] = chosen;
  panel.append(element("h2", [named(data.ids[i]), " → ", named(data.ids[j])]));
  if (typeof found === "string") {
    panel.append(element("p", found, { id: "told" }));
  } else if (found) {
    showPath(data, panel, found);
  } else {
    const held = data.paths ? "it has the paths to the nearest items only" : "it has a sample of the items and no paths";
    panel.append(element("p", [`This file does not contain the path between these two items: ${held}. Run `,
      element("code", "metricmix explore"), " on the model's folder to compute any path."], { id: "told" }));
  }
  if (data.paths && data.paths.directed) {
    const back = element("button", "Reverse direction", { type: "button", id: "reverse" });
    back.addEventListener("click", onReverse);
    panel.append(element("p", back));
  }
}

function showPath(data, panel, found) {
  const hops = found.edges.length;
  const digits = decimalsOf(found.length);
  const number = (value) => value.toFixed(digits);
  const steps = found.nodes.map((node, k) =>
    itemLine(data, node, k ? `, +${short(found.edges[k - 1].length)}` : "",
      ...(k && found.edges[k - 1].said ? [element("small", named(found.edges[k - 1].said),
        { class: "said" })] : [])));
  const used = counting(data), unused = data.weights.length - used.length;
  const rows = used.map((r) => ({ name: data.weights[r].name, value: found.totals[r] }));
  rows.push({ name: LINK, value: found.link });
  rows.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  panel.append(
    element("p", [element("span", short(found.length), { class: "number", id: "length" }),
      hops === 1 ? " distance (direct edge)" : ` distance (${hops} edges)`]),
    element("ol", steps, { class: "items", id: "steps" }),
    heading("h2", data, "Contributions", () => [["source", "contribution"], ...rows.map((row) => [row.name, row.value])]),
    element("div", barTable(rows, number), { id: "contributions" }),
    note("Link: a constant length that every edge has, so that no two items have distance 0." +
      (rows.some((row) => row.value < 0) ? " A negative contribution makes the path shorter." : "") +
      (unused ? ` Not shown: ${counted(unused, "source")} of weight 0.` : "")));
}

// The edges of a path, one by one, over the whole width of the page; nothing for a single edge.
function showEdges(data, place, found) {
  place.replaceChildren();
  place.hidden = !found || !found.edges || found.edges.length < 2;
  if (place.hidden) return;
  const digits = decimalsOf(found.length);
  const number = (value) => value.toFixed(digits);
  const used = counting(data);
  const head = ["edge", "length", ...used.map((r) => named(data.weights[r].name)), LINK];
  const lines = found.edges.map(({ from, to, length, parts }) =>
    [[idOf(data, from), " → ", idOf(data, to)], short(length),
      ...[...used, data.weights.length].map((r) => number(parts[r]))]);
  const names = (i) => (typeof i === "string" ? i : data.ids[i]);
  const rows = () => [["from", "to", "length", ...data.weights.map((weight) => weight.name), LINK],
    ...found.edges.map(({ from, to, length, parts }) => [names(from), names(to), length, ...parts])];
  place.append(heading("h2", data, "Edge by edge", rows),
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

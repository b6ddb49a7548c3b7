// The side panel: what is chosen, the path between two items, and where its length comes from.
// Texts from the data are only ever set as text.

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const short = (value, digits = 4) => (value === null ? "–" : String(Number(value.toPrecision(digits))));

function describe(data, i) {
  const kind = data.misfit[i] ? "given, but the rule prefers another"
    : data.given[i] ? "given" : "found";
  return `${data.classes[data.labels[i]]} (${kind})`;
}

function showPanel(data, panel, chosen, found) {
  panel.replaceChildren();
  if (!chosen.length) {
    panel.append(element("h2", "Paths"),
      element("p", "Choose two items on the map, or find them by name.", { class: "note" }));
    return;
  }
  if (chosen.length === 1) {
    panel.append(element("h2", data.ids[chosen[0]]), element("p", describe(data, chosen[0])),
      element("p", "Choose a second item to see the path to it.", { class: "note" }));
    return;
  }
  const [i, j] = chosen;
  panel.append(element("h2", `${data.ids[i]} → ${data.ids[j]}`));
  if (!found) {
    panel.append(element("p", "The path between these two is not inside this file, which holds " +
      "those to the nearest items only; “metricmix explore” computes any."));
    return;
  }
  const hops = found.edges.length;
  const length = element("p");
  length.append(element("span", short(found.length), { class: "number", id: "length" }),
    ` in ${hops} ${hops === 1 ? "edge" : "edges"}`);
  const list = element("ol");
  found.nodes.forEach((node, k) => {
    const step = k ? `, ${short(found.edges[k - 1].length)} further` : "";
    list.append(element("li", `${data.ids[node]} · ${data.classes[data.labels[node]]}${step}`));
  });
  const rows = data.weights.map((weight, r) => ({ name: weight.name, value: found.totals[r] }));
  rows.push({ name: "every edge (link)", value: found.link });
  rows.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  panel.append(length, list, element("h2", "Contributions"), barTable(rows));
}

// The figures below the map: tables with bars, small and readable as text too.

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Rows {name, value, lower, upper} as a table with a bar from 0 and a line for the interval.
function barTable(rows, format = (value) => short(value), reach = 0) {
  const ends = rows.flatMap((row) => [row.value, row.lower, row.upper])
    .filter((value) => typeof value === "number");
  const low = Math.min(0, ...ends), high = Math.max(reach, ...ends);
  const x = (value) => (100 * (value - low)) / (high - low || 1);
  const table = element("table"), body = element("tbody");
  for (const row of rows) {
    const line = element("tr"), cell = element("td", undefined, { class: "bar" });
    const picture = svg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", height: 14,
      "aria-hidden": "true" });
    const value = row.value ?? 0;
    picture.append(svg("rect", { x: x(Math.min(0, value)), y: 1, height: 10,
      width: Math.abs(x(value) - x(0)), fill: value < 0 ? "#D55E00" : "#56B4E9" }));
    if (typeof row.lower === "number" && typeof row.upper === "number") {
      picture.append(svg("path", { d: `M${x(row.lower)} 6H${x(row.upper)}`, stroke: "#000",
        "stroke-width": 2, "vector-effect": "non-scaling-stroke" }));
    }
    picture.append(svg("path", { d: `M${x(0)} 0V12`, stroke: "#595959", "stroke-width": 1,
      "vector-effect": "non-scaling-stroke" }));
    cell.append(picture);
    const number = element("td", format(row.value), { class: "value" });
    if (row.note) number.append(element("small", row.note));
    line.append(element("td", row.name), cell, number);
    body.append(line);
  }
  table.append(body);
  return table;
}

function card(title, ...content) {
  const made = element("section", undefined, { class: "card" });
  made.append(element("h2", title), ...content);
  return made;
}

function confusionTable(data) {
  const table = element("table"), head = element("tr"), body = element("tbody");
  head.append(element("th", "is \\ found"));
  data.classes.forEach((name) => head.append(element("th", name)));
  const most = Math.max(1, ...data.confusion.counts.flat());
  data.confusion.counts.forEach((counts, c) => {
    const line = element("tr");
    line.append(element("th", data.classes[c]));
    counts.forEach((count, k) => {
      const cell = element("td", String(count));
      const shade = k === c ? "86, 180, 233" : "230, 159, 0";
      cell.style.backgroundColor = `rgba(${shade}, ${(0.75 * count) / most})`;
      line.append(cell);
    });
    body.append(line);
  });
  const top = element("thead");
  top.append(head);
  table.append(top, body);
  const scroll = element("div", undefined, { class: "scroll", tabindex: 0 });
  scroll.append(table);
  return scroll;
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
    svg("path", { d, fill: "none", stroke: "#0072B2", "stroke-width": 2 }));
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

function showFigures(data, place) {
  const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
  const interval = (w) => (w.lower === null ? "" : `${short(w.lower, 3)} to ${short(w.upper, 3)}`);
  place.append(card("Weights of the sources",
    barTable(data.weights.map((weight) => ({ ...weight, note: interval(weight) }))),
    element("p", "Bar: the weight. Line: its interval.", { class: "note" })));
  if (data.accuracies.length) {
    place.append(card("Accuracy", barTable(data.accuracies.map((one) => ({
      ...one, note: one.spread === null ? "" : `± ${(100 * one.spread).toFixed(1)}`,
    })), percent, 1)));
  }
  if (data.confusion) {
    place.append(card("Confusion", confusionTable(data),
      element("p", data.confusion.how, { class: "note" })));
  }
  if (data.convergence && data.convergence.objective.length > 1) {
    place.append(card("Convergence", curve(data.convergence),
      element("p", data.convergence.status, { class: "note" })));
  }
  if (data.certificate) {
    const { violation, triangles } = data.certificate;
    const amount = element("p");
    amount.append(element("span", violation ? violation.toExponential(1) : short(violation),
      { class: "number" }), " largest violation of a triangle");
    place.append(card("Certificate of the metric", amount, element("p",
      `${triangles.toLocaleString("en")} triangles checked.`, { class: "note" })));
  }
}

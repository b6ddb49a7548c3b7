// Tables with bars, readable as text too.

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Rows {name, about, value, lower, upper, note} as a table with a bar from 0 and a line for the interval.
function barTable(rows, format = (value) => short(value), reach = 0) {
  const ends = rows.flatMap((row) => [row.value, row.lower, row.upper])
    .filter((value) => typeof value === "number");
  const low = Math.min(0, ...ends), high = Math.max(reach, ...ends);
  const x = (value) => (100 * (value - low)) / (high - low || 1);
  const body = element("tbody");
  for (const row of rows) {
    const picture = svg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", height: 14,
      "aria-hidden": "true" });
    const value = row.value ?? 0;
    picture.append(svg("rect", { x: x(Math.min(0, value)), y: 1, height: 10,
      width: Math.abs(x(value) - x(0)), fill: value < 0 ? "#D55E00" : "#56B4E9" }));
    const stroke = (d, colour, thickness) => picture.append(svg("path", { d, stroke: colour,
      "stroke-width": thickness, fill: "none", "vector-effect": "non-scaling-stroke" }));
    if (typeof row.lower === "number" && typeof row.upper === "number") {
      stroke(`M${x(row.lower)} 6H${x(row.upper)}M${x(row.lower)} 3V9M${x(row.upper)} 3V9`, "#000", 1.5);
    }
    stroke(`M${x(0)} 0V12`, "#595959", 1);
    const number = element("td", format(row.value), { class: "value" });
    if (row.note) number.append(element("small", row.note));
    const name = element("th", named(row.name), { scope: "row" });
    if (row.about) name.append(element("small", named(row.about)));
    body.append(element("tr", [name,
      element("td", picture, { class: "bar" }), number]));
  }
  return element("table", body, { class: "bars" });
}

function scrolling(table, label) {
  return element("div", table, { class: "scroll", tabindex: 0, role: "region", "aria-label": label });
}

// A table with a head; the first cell of each row names it. With the class "upright" the names of
// the other columns are written upwards, which takes less room.
function plainTable(head, rows) {
  const top = element("thead", element("tr", head.map((cell) => {
    const name = element("th", element("span", cell), { scope: "col" });
    name.title = name.textContent;
    return name;
  })));
  const body = element("tbody", rows.map(([first, ...rest]) => {
    const name = element("th", first, { scope: "row" });
    name.title = name.textContent;
    return element("tr", [name, ...rest.map((cell) => element("td", cell))]);
  }));
  return element("table", [top, body]);
}

const note = (content) => element("p", content, { class: "note" });

const isCutOff = (scroller) => scroller.scrollWidth > scroller.clientWidth;

function definitions(pairs) {
  return element("dl", pairs.flatMap(([term, meaning]) => [element("dt", term), element("dd", meaning)]));
}

// Downloads: the map as PNG or SVG, tables as CSV. No network requests.

const LEGEND = { row: 22, size: 13, gap: 26 };
const STAMP = 12; // pixels from the middle of a mark to its border
const SHARP = 2; // pixels of a PNG for a pixel of the screen

function download(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = element("a", undefined, { download: name });
  link.href = address;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// The name of a file: letters, digits and hyphens of some texts.
function fileName(texts, ending) {
  const words = texts.map((text) => text.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40));
  return `${words.filter(Boolean).join("-").toLowerCase() || "map"}.${ending}`;
}

// The map as it is seen, with its title above and the legend below: parts as the canvas takes them.
function picture(data, map) {
  const scene = map.scene(), top = 40;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = fontOf(LEGEND.size);
  const kinds = data.classes.map((name, label) => ({ text: cut(name, 40),
    marks: markParts(data.palette, label, 5, 1, 0) }));
  const hollow = data.given.includes(0), misfits = data.misfit.includes(1);
  const grey = Object.assign(["#595959"], { ordered: true });
  const key = [["given", 1, 0], ...(hollow ? [["predicted", 0, 0]] : []), ...(misfits ? [["misfit", 1, 1]] : [])]
    .map(([text, given, misfit]) => ({ text, marks: markParts(grey, 0, 5, given, misfit) }));
  const parts = [];
  let x = 12, y = top + scene.height + 20;
  [...kinds, null, ...key].forEach((entry) => {
    const long = entry ? pen.measureText(entry.text).width + LEGEND.gap : Infinity;
    if (x + long > scene.width && x > 12) { x = 12; y += LEGEND.row; }
    if (!entry) return;
    parts.push(...entry.marks.map((part) => ({ ...part, x: x + 6, y })),
      { text: entry.text, x: x + 16, y, size: LEGEND.size, fill: DARK, anchor: "start" });
    x += long;
  });
  const title = { text: cut(`${data.title} · ${viewName(data, map.current())}`, 100), x: 12, y: 20, size: 15, fill: DARK, anchor: "start" };
  return { ...scene, title, below: parts, top, full: y + LEGEND.row };
}

// A mark as a picture: one that is pale is pale as a whole.
function stampOf(drawn) {
  const canvas = element("canvas", undefined, { width: 2 * STAMP * SHARP, height: 2 * STAMP * SHARP });
  const context = canvas.getContext("2d");
  context.setTransform(SHARP, 0, 0, SHARP, STAMP * SHARP, STAMP * SHARP);
  drawn.forEach((part) => paint(context, part));
  return canvas;
}

function drawnPng(data, map) {
  const { width, full, top, height, marks, items, parts, title, below } = picture(data, map);
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * SHARP);
  canvas.height = Math.round(full * SHARP);
  const context = canvas.getContext("2d");
  context.scale(SHARP, SHARP);
  context.fillStyle = WHITE;
  context.fillRect(0, 0, width, full);
  [title, ...below].forEach((part) => paint(context, part));
  context.translate(0, top);
  context.beginPath();
  context.rect(0, 0, width, height);
  context.clip();
  const stamps = new Map(Array.from(marks, ([mark, drawn]) => [mark, stampOf(drawn)]));
  for (const { mark, x, y, opacity } of items) {
    context.globalAlpha = opacity;
    context.drawImage(stamps.get(mark), x - STAMP, y - STAMP, 2 * STAMP, 2 * STAMP);
  }
  context.globalAlpha = 1;
  parts.forEach((part) => paint(context, part));
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}

// XML allows neither control characters nor lone surrogates.
const forXml = (text) => text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");

function svgPart({ d, text, x = 0, y = 0, fill, stroke, width, size, anchor = "center" }) {
  if (text === undefined) {
    const made = svg("path", { d, fill, ...(stroke ? { stroke, "stroke-width": width, "stroke-linejoin": "round" } : {}) });
    if (x || y) made.setAttribute("transform", `translate(${round2(x)} ${round2(y)})`);
    return made;
  }
  const made = svg("text", { x: round2(x), y: round2(y), fill, "font-size": size, "font-weight": 600,
    "font-family": FAMILY, "text-anchor": anchor === "center" ? "middle" : anchor, "dominant-baseline": "central",
    stroke: WHITE, "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" });
  made.textContent = forXml(text);
  return made;
}

function drawnSvg(data, map) {
  const { width, full, top, height, marks, items, parts, title, below } = picture(data, map);
  const root = svg("svg", { width, height: full, viewBox: `0 0 ${width} ${full}` });
  const name = svg("title", {});
  name.textContent = forXml(data.title);
  const defs = svg("defs", {});
  for (const [mark, drawn] of marks) {
    const group = svg("g", { id: `mark-${mark}` });
    group.append(...drawn.map(svgPart));
    defs.append(group);
  }
  const inside = svg("svg", { y: top, width, height }); // what lies beyond its frame is not seen
  for (const { mark, x, y, opacity, title: id } of items) {
    const used = svg("use", { href: `#mark-${mark}`, x, y, ...(opacity < 1 ? { opacity } : {}) });
    const said = svg("title", {});
    said.textContent = forXml(id);
    used.append(said);
    inside.append(used);
  }
  inside.append(...parts.map(svgPart));
  root.append(name, defs, svg("rect", { width, height: full, fill: WHITE }), svgPart(title), ...below.map(svgPart), inside);
  return new XMLSerializer().serializeToString(root);
}

// Rows as CSV; cells with commas, quotes or line breaks are quoted.
const csvOf = (rows) => rows.map((row) => row.map((cell) => {
  const text = cell === null || cell === undefined ? "" : String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\n") + "\n";

// The items of the map, one per row.
function itemRows(data, view) {
  const titled = data.about.length > 0, { coordinates } = data.views[view];
  const head = ["id", ...(titled ? ["name"] : []), data.target ? "target" : "label", data.target ? "known" : "given",
    "misfit", "predicted", ...(data.confidence ? ["confidence"] : []), "x", "y"];
  const predicted = (i) => (data.target ? data.predicted[i] : data.prefers ? data.classes[data.prefers[i]] : "");
  return [head, ...data.ids.map((id, i) => [id, ...(titled ? [data.about[i]] : []),
    data.target ? data.target[i] : data.classes[data.labels[i]], data.given[i] ? "yes" : "no",
    data.misfit[i] ? "yes" : "no", predicted(i), ...(data.confidence ? [short(data.confidence[i])] : []),
    short(coordinates[2 * i], 6), short(coordinates[2 * i + 1], 6)])];
}

// A heading, and a button that saves the table below it.
function heading(name, data, title, rows) {
  const button = element("button", "CSV", { type: "button", class: "csv", "aria-label": `Save as CSV: ${title}` });
  button.addEventListener("click", () => download(fileName([data.title, title], "csv"), csvOf(rows()), "text/csv"));
  return element("div", [element(name, title), button], { class: "heading" });
}

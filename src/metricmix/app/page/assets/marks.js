// One mark per label: a colour and a shape, so that no one needs the colour to tell them apart.
// Given labels are filled, predicted ones hollow; misfits keep their colour and get a white cross.
// Marks are path data: the canvas and the SVG file draw the same.

const DARK = "#1b1b1b", WHITE = "#ffffff";

const polygon = (corners, r) => `M${corners.map(([x, y]) => `${round2(x * r)} ${round2(y * r)}`).join("L")}Z`;
const box = (w, h, r) => polygon([[-w, -h], [w, -h], [w, h], [-w, h]], r);
const circle = (r) => `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`;

const SHAPES = [
  (r) => circle(r),
  (r) => box(0.88, 0.88, r),
  (r) => polygon([[0, -1.25], [1.1, 0.8], [-1.1, 0.8]], r),
  (r) => polygon([[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]], r),
  (r) => polygon([[0, 1.25], [1.1, -0.8], [-1.1, -0.8]], r),
  (r) => polygon([[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4],
    [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]], r),
  (r) => polygon(star(5, 0.5), 1.35 * r),
  (r) => polygon([[-1.2, 0], [0.8, -1.1], [0.8, 1.1]], r),
  (r) => polygon([[-1, -1.15], [1, -1.15], [-1, 1.15], [1, 1.15]], r),
  (r) => box(1.25, 0.5, r),
  (r) => polygon([[1.2, 0], [-0.8, -1.1], [-0.8, 1.1]], r),
  (r) => box(0.5, 1.25, r),
];

function star(points, inner) {
  return Array.from({ length: 2 * points }, (_, k) => {
    const angle = (Math.PI * k) / points, reach = k % 2 ? inner : 1;
    return [reach * Math.sin(angle), -reach * Math.cos(angle)];
  });
}

// 14 colours and 12 shapes: of 168 labels no two have the same of both. Ranges of a number are
// circles, darker or lighter.
const colourOf = (palette, label) => palette[label % palette.length];
const shapeOf = (palette, label) =>
  (palette.ordered ? 0 : (label + Math.floor(label / (6 * palette.length))) % SHAPES.length);

// The parts of a mark around (0, 0): path data with fill and stroke, drawn in this order.
function markParts(palette, label, radius, given, misfit) {
  const colour = colourOf(palette, label), shape = SHAPES[shapeOf(palette, label)];
  if (!misfit) {
    return [{ d: shape(radius), fill: given ? colour : WHITE, stroke: given ? WHITE : colour,
      width: given ? 0.8 : 1.6 }];
  }
  const r = round2(0.85 * radius);
  return [{ d: shape(1.35 * radius), fill: colour, stroke: DARK, width: 1.6 },
    { d: `M${-r} ${-r}L${r} ${r}M${r} ${-r}L${-r} ${r}`, fill: "none", stroke: WHITE, width: 1.4 }];
}

// Draws a part: path data, or a text with a white halo.
function paint(context, { d, text, x = 0, y = 0, fill, stroke, width, size, anchor = "center", opacity = 1 }) {
  context.save();
  context.globalAlpha *= opacity;
  context.lineJoin = "round";
  context.translate(x, y);
  if (text !== undefined) {
    context.font = fontOf(size);
    context.textAlign = anchor;
    context.textBaseline = "middle";
    context.lineWidth = 4;
    context.strokeStyle = WHITE;
    context.strokeText(text, 0, 0);
    context.fillStyle = fill;
    context.fillText(text, 0, 0);
  } else {
    const path = new Path2D(d);
    if (fill !== "none") { context.fillStyle = fill; context.fill(path); }
    if (stroke) { context.lineWidth = width; context.strokeStyle = stroke; context.stroke(path); }
  }
  context.restore();
}

const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const fontOf = (size) => `600 ${size}px ${FAMILY}`;

// A colour for text on white: the same hue, as dark as text has to be (4.5 to 1).
function inkOf(colour) {
  const levels = [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
  const linear = (u) => (u <= 10.3 ? u / 3294.6 : ((u / 255 + 0.055) / 1.055) ** 2.4);
  let share = 1;
  const contrast = () => {
    const [r, g, b] = levels.map((u) => linear(share * u));
    return 1.05 / (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05);
  };
  while (contrast() < 4.6) share -= 0.02;
  return `#${levels.map((u) => Math.round(share * u).toString(16).padStart(2, "0")).join("")}`;
}

// All marks in one small picture, drawn once and stamped for each item: 5000 items are 5000 copies
// from one texture. A mark is number (label * 2 + given) * 2 + misfit, `side` pixels wide.
function makeStamps(data, radius, ratio) {
  const side = Math.ceil(2 * (radius * 1.9 + 2) * ratio);
  const sheet = document.createElement("canvas");
  sheet.width = side * 4;
  sheet.height = side * data.classes.length;
  const context = sheet.getContext("2d", { willReadFrequently: true });
  for (let mark = 0; mark < 4 * data.classes.length; mark++) {
    context.setTransform(ratio, 0, 0, ratio, (mark % 4 + 0.5) * side, (Math.floor(mark / 4) + 0.5) * side);
    markParts(data.palette, mark >> 2, radius, (mark >> 1) & 1, mark & 1).forEach((part) => paint(context, part));
  }
  return { sheet, side };
}

// A mark in a small picture of its own, for lines of text.
function markPicture(palette, label, given, misfit) {
  const canvas = element("canvas", undefined, { width: 36, height: 36, class: "mark", "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.setTransform(2, 0, 0, 2, 18, 18);
  markParts(palette, label, misfit ? 5 : 6, given, misfit).forEach((part) => paint(context, part));
  return canvas;
}

// One mark per label: a colour and a shape, so that no one needs the colour to tell them apart.
// Given labels are filled, found ones hollow, misfits crossed out.

const SHAPES = [
  (c, r) => c.arc(0, 0, r, 0, 2 * Math.PI),
  (c, r) => c.rect(-0.88 * r, -0.88 * r, 1.76 * r, 1.76 * r),
  (c, r) => polygon(c, [[0, -1.25], [1.1, 0.8], [-1.1, 0.8]], r),
  (c, r) => polygon(c, [[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]], r),
  (c, r) => polygon(c, [[0, 1.25], [1.1, -0.8], [-1.1, -0.8]], r),
  (c, r) => polygon(c, [[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4],
    [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]], r),
  (c, r) => polygon(c, star(5, 0.5), 1.35 * r),
  (c, r) => polygon(c, [[-1.2, 0], [0.8, -1.1], [0.8, 1.1]], r),
  (c, r) => polygon(c, [[-1, -1.15], [1, -1.15], [-1, 1.15], [1, 1.15]], r),
  (c, r) => c.rect(-1.25 * r, -0.5 * r, 2.5 * r, r),
  (c, r) => polygon(c, [[1.2, 0], [-0.8, -1.1], [-0.8, 1.1]], r),
  (c, r) => c.rect(-0.5 * r, -1.25 * r, r, 2.5 * r),
];

function polygon(context, corners, r) {
  corners.forEach(([x, y], k) => context[k ? "lineTo" : "moveTo"](x * r, y * r));
  context.closePath();
}

function star(points, inner) {
  return Array.from({ length: 2 * points }, (_, k) => {
    const angle = (Math.PI * k) / points, reach = k % 2 ? inner : 1;
    return [reach * Math.sin(angle), -reach * Math.cos(angle)];
  });
}

// All marks in one small picture, drawn once and stamped for each item: 5000 items are 5000 copies
// from one texture. A mark is number (label * 2 + given) * 2 + misfit, `side` pixels wide.
function makeStamps(data, radius, ratio) {
  const side = Math.ceil(2 * (radius * 1.4 + 2) * ratio);
  const sheet = document.createElement("canvas");
  sheet.width = side * 4;
  sheet.height = side * data.classes.length;
  const context = sheet.getContext("2d", { willReadFrequently: true });
  for (let mark = 0; mark < 4 * data.classes.length; mark++) {
    context.setTransform(ratio, 0, 0, ratio, (mark % 4 + 0.5) * side, (Math.floor(mark / 4) + 0.5) * side);
    drawMark(context, data.palette, mark >> 2, radius, (mark >> 1) & 1, mark & 1);
  }
  return { sheet, side };
}

// Seven colours and twelve shapes: no two of 84 labels have the same of both. Ranges of a number are
// circles, darker or lighter.
function drawMark(context, palette, label, radius, given, misfit) {
  const colour = palette[label % palette.length];
  context.beginPath();
  SHAPES[palette.ordered ? 0 : label % SHAPES.length](context, radius);
  context.fillStyle = given ? colour : "#ffffff";
  context.fill();
  context.lineWidth = given ? 0.8 : 1.6;
  context.strokeStyle = given ? "#ffffff" : colour;
  context.stroke();
  if (!misfit) return;
  const r = radius * 1.25;
  for (const [width, style] of [[3.4, "#ffffff"], [1.6, "#000000"]]) {
    context.beginPath();
    context.moveTo(-r, -r); context.lineTo(r, r);
    context.moveTo(r, -r); context.lineTo(-r, r);
    context.lineWidth = width;
    context.strokeStyle = style;
    context.stroke();
  }
}

// A mark in a small picture of its own, for lines of text.
function markPicture(palette, label, given, misfit) {
  const canvas = element("canvas", undefined, { width: 36, height: 36, class: "mark", "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.setTransform(2, 0, 0, 2, 18, 18);
  drawMark(context, palette, label, 6, given, misfit);
  return canvas;
}

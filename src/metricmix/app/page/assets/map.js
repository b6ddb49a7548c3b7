// The map: a canvas, drawn anew for every frame that differs; d3 keeps pan, zoom and nearness.
// It takes the wheel and one finger only while it has the focus, so that the page scrolls past it.

const RADIUS = 5;
const REACH = 18; // pixels around the pointer within which an item counts as meant
const MARGIN = 20; // pixels that the frame leaves around the items
const DIM = 0.22; // of items that are not highlighted
const BESIDE = 0.4; // of items that are not on the path
const NAME = 13; // pixels: the size of names on the map
const NARROW = 520; // pixels: a map with shorter names

function makeMap(data, canvas, { onHover, onChoose, onMissed, onRefused }) {
  const n = data.ids.length;
  // A canvas in memory: thousands of small stamps are as fast there, and need no graphics card.
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const positions = new Float32Array(data.views[0].coordinates); // in the units of the views
  let width = 1, height = 1, ratio = 1, unit = 1, centre = [0, 0];
  let transform = d3.zoomIdentity, tree = null, stamps = null;
  const order = Array.from({ length: n }, (_, i) => i) // misfits lie above given, given above predicted
    .sort((i, j) => 2 * (data.misfit[i] - data.misfit[j]) + data.given[i] - data.given[j] || i - j);
  let hovered = -1, chosen = [], path = null, moving = 0, waiting = false, current = 0, highlighted = -1;
  let clusters = [], names = [];

  const active = () => document.activeElement === canvas;
  const zoom = d3.zoom().scaleExtent([0.5, 60])
    .filter((event) => {
      if (event.type === "wheel") return event.ctrlKey || event.metaKey || active();
      if (event.type === "touchstart") return event.touches.length > 1 || active();
      return !event.button && !event.ctrlKey;
    })
    .on("zoom", (event) => {
      transform = event.transform;
      ask();
    });
  const selection = d3.select(canvas).call(zoom).on("dblclick.zoom", null);
  const gently = () => (still ? selection : selection.transition().duration(300));

  const base = (i) => [
    width / 2 + (positions[2 * i] - centre[0]) * unit,
    height / 2 - (positions[2 * i + 1] - centre[1]) * unit,
  ];
  const place = (i) => transform.apply(base(i));

  function ends(target) {
    const low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    for (let k = 0; k < 2 * n; k++) {
      low[k % 2] = Math.min(low[k % 2], target[k]);
      high[k % 2] = Math.max(high[k % 2], target[k]);
    }
    return [low, high];
  }

  // How high the learned map is for its width: a narrow page makes its frame so.
  function shape() {
    const [low, high] = ends(data.views[0].coordinates);
    const ratio = (high[1] - low[1]) / (high[0] - low[0]);
    canvas.parentElement.style.setProperty("--shape", Number.isFinite(ratio) ? ratio : 1);
  }

  function frame() {
    const [low, high] = ends(data.views[current].coordinates);
    centre = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    unit = Math.min((width - 2 * MARGIN) / (high[0] - low[0] || 1),
      (height - 2 * MARGIN) / (high[1] - low[1] || 1));
  }

  function index() {
    const all = Array.from({ length: n }, (_, i) => i);
    tree = d3.quadtree(all, (i) => base(i)[0], (i) => base(i)[1]);
    clusters = data.classes.length > 1 && !data.palette.ordered ? densest(data, base, 28) : [];
  }

  // The names of the labels, each beside its cluster; only that of the highlighted label, if there is one.
  function placed() {
    if (!canvas.dataset.view) return []; // items are on their way
    const letters = width < NARROW ? LETTERS.narrow : LETTERS.wide;
    context.font = fontOf(nameSize());
    const shown = clusters.filter(({ label }) => highlighted < 0 || highlighted === label)
      .map(({ label, mean }) => ({ label, at: transform.apply(mean), text: cut(data.classes[label], letters) }));
    return placeNames(shown, { width, height, eachSpot, line: line(),
      measure: (text) => context.measureText(text).width });
  }

  const nameSize = () => (width < NARROW ? NAME - 1.5 : NAME);

  function eachSpot(visit) {
    const { k } = transform;
    const left = transform.x + k * (width / 2 - centre[0] * unit), top = transform.y + k * (height / 2 + centre[1] * unit);
    for (let i = 0; i < n; i++) visit(left + k * unit * positions[2 * i], top - k * unit * positions[2 * i + 1]);
  }

  const line = () => (path || []).map(place);

  function nearest(x, y) {
    const [a, b] = transform.invert([x, y]);
    const found = tree.find(a, b, REACH / transform.k);
    return found === undefined ? -1 : found;
  }

  function ask() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  function stamp(chosenOnes) {
    const { sheet, side } = stamps;
    const half = side / ratio / 2;
    let drawn = 0;
    for (const i of order) {
      if (!chosenOnes(i)) continue;
      const x = transform.x + transform.k * (width / 2 + (positions[2 * i] - centre[0]) * unit);
      const y = transform.y + transform.k * (height / 2 - (positions[2 * i + 1] - centre[1]) * unit);
      if (x < -half || y < -half || x > width + half || y > height + half) continue;
      const column = (2 * data.given[i] + data.misfit[i]) * side;
      context.drawImage(sheet, column, data.labels[i] * side, side, side,
        Math.round((x - half) * ratio) / ratio, Math.round((y - half) * ratio) / ratio,
        2 * half, 2 * half);
      drawn++;
    }
    return drawn;
  }

  function draw() {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    let drawn = 0;
    for (const [opacity, isMeant] of layers()) {
      context.globalAlpha = opacity;
      drawn += stamp(isMeant);
    }
    context.globalAlpha = 1;
    names = placed();
    overlay().forEach((part) => paint(context, part));
    canvas.dataset.points = drawn;
    canvas.dataset.path = path ? path.join(" ") : "";
    if (hovered < 0) return;
    ring(hovered, 2).forEach((part) => paint(context, part));
    onHover(hovered, place(hovered), [width, height], line());
  }

  // How strong items are drawn: all of them, or the highlighted ones above the others.
  function layers() {
    const all = path ? BESIDE : 1;
    if (highlighted < 0) return [[all, () => true]];
    return [[DIM, (i) => data.labels[i] !== highlighted], [all, (i) => data.labels[i] === highlighted]];
  }

  // What lies above the items, as parts: names, the path, rings around what is chosen.
  function overlay() {
    const texts = names.map(({ label, text, x, y }) => ({ text, x, y, size: nameSize(),
      fill: inkOf(colourOf(data.palette, label)) }));
    return [...texts, ...(path ? pathParts() : []), ...chosen.flatMap((i) => ring(i, 4))];
  }

  function pathParts() {
    const d = `M${line().map(([x, y]) => `${round2(x)} ${round2(y)}`).join("L")}`;
    const parts = [[7, WHITE], [3, DARK]].map(([thickness, stroke]) => ({ d, fill: "none", stroke, width: thickness }));
    if (data.paths && data.paths.directed) {
      path.slice(1).forEach((v, k) => parts.push(...arrow(place(path[k]), place(v))));
    }
    return [...parts, ...path.flatMap((i) => {
      const [x, y] = place(i);
      return markParts(data.palette, data.labels[i], RADIUS * 1.4, data.given[i], data.misfit[i])
        .map((part) => ({ ...part, x, y }));
    })];
  }

  function arrow([x, y], [a, b]) {
    if (Math.hypot(a - x, b - y) < 30) return [];
    const angle = Math.atan2(b - y, a - x), [c, s] = [Math.cos(angle), Math.sin(angle)];
    const corners = [[10, 0], [-7, 8], [-7, -8]].map(([p, q]) => [c * p - s * q, s * p + c * q]);
    const at = { d: polygon(corners, 1), x: (x + a) / 2, y: (y + b) / 2 };
    return [{ ...at, fill: "none", stroke: WHITE, width: 3 }, { ...at, fill: DARK }];
  }

  function ring(i, thickness) {
    const [x, y] = place(i), d = circle(RADIUS + 7);
    return [[thickness + 2, WHITE], [thickness / 1.6, "#000000"]].map(([thick, stroke]) =>
      ({ d, x, y, fill: "none", stroke, width: thick }));
  }

  // The map as it is seen, for a file: parts, and items by their marks, which are parts, too.
  function scene() {
    const r = radius(), marks = new Map(), items = [];
    for (const [opacity, isMeant] of layers()) {
      for (const i of order) {
        const [x, y] = place(i);
        if (!isMeant(i) || x < -r || y < -r || x > width + r || y > height + r) continue;
        const mark = `${data.labels[i]}-${data.given[i]}-${data.misfit[i]}`;
        if (!marks.has(mark)) marks.set(mark, markParts(data.palette, data.labels[i], r, data.given[i], data.misfit[i]));
        items.push({ mark, x: round2(x), y: round2(y), opacity, title: data.ids[i] });
      }
    }
    return { width, height, marks, items, parts: overlay() };
  }

  const radius = () => (n > 1500 ? RADIUS - 1.5 : RADIUS);

  function show(view) {
    current = view;
    const from = Float32Array.from(positions), to = data.views[view].coordinates;
    const oldUnit = unit, oldCentre = centre;
    frame();
    const newUnit = unit, newCentre = centre;
    const start = performance.now(), mine = ++moving;
    canvas.dataset.view = "";
    const step = () => {
      if (mine !== moving) return;
      const t = still ? 1 : Math.min(1, (performance.now() - start) / 500);
      const s = t * t * (3 - 2 * t);
      for (let k = 0; k < 2 * n; k++) positions[k] = from[k] + s * (to[k] - from[k]);
      unit = oldUnit + s * (newUnit - oldUnit);
      centre = [0, 1].map((k) => oldCentre[k] + s * (newCentre[k] - oldCentre[k]));
      draw();
      if (t < 1) { requestAnimationFrame(step); return; }
      index();
      canvas.dataset.view = data.views[view].name;
      draw();
    };
    step();
  }

  function resize() {
    const box = canvas.getBoundingClientRect();
    if (!box.width || !box.height) return;
    ratio = window.devicePixelRatio || 1;
    width = box.width;
    height = box.height;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    stamps = makeStamps(data, radius(), ratio);
    zoom.extent([[0, 0], [width, height]]).translateExtent([[-width, -height], [2 * width, 2 * height]]);
    frame();
    index();
    draw();
  }

  function hover(i) {
    if (i === hovered) return;
    hovered = i;
    if (i < 0) onHover(-1);
    ask();
  }

  // How many other items lie where this one does: the pointer cannot tell them apart.
  function others(i) {
    const [x, y] = base(i);
    let count = -1;
    for (let k = 0; k < n; k++) {
      const [a, b] = base(k);
      if (Math.abs(a - x) + Math.abs(b - y) < 0.02) count++;
    }
    return count;
  }

  // The next item in a direction: near, and not far off it.
  function step(dx, dy) {
    if (hovered < 0) return hover(tree.find(...transform.invert([width / 2, height / 2])));
    const [x, y] = place(hovered);
    let best = -1, least = Infinity;
    for (let i = 0; i < n; i++) {
      const [a, b] = place(i);
      const along = (a - x) * dx + (b - y) * dy;
      const aside = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      if (i === hovered || along <= 0 || aside > 2 * along) continue;
      if (along + 2 * aside < least) { least = along + 2 * aside; best = i; }
    }
    if (best >= 0) { bring(best); hover(best); }
    return undefined;
  }

  function isInside(i) {
    const [x, y] = place(i), r = RADIUS + 7;
    return x > r && y > r && x < width - r && y < height - r;
  }

  function bring(i) {
    if (!isInside(i)) selection.call(zoom.translateTo, ...base(i));
  }

  // Lets all of some items be seen; the map stays as it is if they are.
  function contain(items) {
    if (items.every(isInside)) return;
    const [xs, ys] = [0, 1].map((c) => items.map((i) => base(i)[c]));
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const k = Math.min(transform.k, (width - 2 * MARGIN) / (right - left || 1),
      (height - 2 * MARGIN) / (bottom - top || 1));
    gently().call(zoom.transform, d3.zoomIdentity.translate(width / 2, height / 2).scale(k)
      .translate(-(left + right) / 2, -(top + bottom) / 2));
  }

  // Where the map is zoomed to: the scale, and the middle as shares of the width and height of the
  // view, so that a screen of another size shows the same. Null for the whole map.
  function zoomed() {
    const { k } = transform;
    if (k === 1 && !transform.x && !transform.y) return null;
    const [low, high] = ends(data.views[current].coordinates);
    const [a, b] = transform.invert([width / 2, height / 2]);
    const x = (a - width / 2) / unit + centre[0], y = centre[1] - (b - height / 2) / unit;
    return [k, (x - low[0]) / (high[0] - low[0] || 1), (y - low[1]) / (high[1] - low[1] || 1)];
  }

  function zoomTo([k, x, y]) {
    const [low, high] = ends(data.views[current].coordinates);
    const [a, b] = [low[0] + x * (high[0] - low[0]), low[1] + y * (high[1] - low[1])];
    selection.call(zoom.transform, d3.zoomIdentity.translate(width / 2, height / 2).scale(k)
      .translate(-(width / 2 + (a - centre[0]) * unit), -(height / 2 - (b - centre[1]) * unit)));
  }

  const scale = (factor) => gently().call(zoom.scaleBy, factor);
  const whole = () => gently().call(zoom.transform, d3.zoomIdentity);

  const KEYS = {
    ArrowLeft: () => step(-1, 0), ArrowRight: () => step(1, 0),
    ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
    Enter: () => hovered >= 0 && onChoose(hovered), " ": () => hovered >= 0 && onChoose(hovered),
    "+": () => scale(1.5), "=": () => scale(1.5), "-": () => scale(1 / 1.5), 0: whole,
    Escape: () => { hover(-1); onChoose(-1); },
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !active()) onRefused();
  }, { passive: true });
  canvas.addEventListener("pointermove", (event) => hover(nearest(event.offsetX, event.offsetY)));
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("click", (event) => {
    canvas.focus({ preventScroll: true });
    const i = nearest(event.offsetX, event.offsetY);
    if (i >= 0) onChoose(i); else onMissed();
  });
  canvas.dataset.view = data.views[0].name;
  shape();
  new ResizeObserver(resize).observe(canvas);
  resize();

  return {
    show, scale, whole, others, contain, hover, scene, zoomed, zoomTo,
    lowest: () => Math.max(0, ...[...chosen, ...(path || [])].map((i) => place(i)[1])),
    mark(items, nodes) {
      chosen = items;
      path = nodes;
      if (!items.length) hover(-1);
      ask();
    },
    highlight(label) { highlighted = label; ask(); },
    highlighted: () => highlighted,
    current: () => current,
  };
}

// Where texts find room on the map: the tooltip beside the path, and the names of the clusters.

const overlap = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
const within = (a, width, height) => a.x >= 2 && a.y >= 2 && a.x + a.w <= width - 2 && a.y + a.h <= height - 2;
const padded = ({ x, y, w, h }, by) => ({ x: x - by, y: y - by, w: w + 2 * by, h: h + 2 * by });

// Whether a segment touches a box: what is left of it between the four sides.
function touches({ x, y, w, h }, [ax, ay], [bx, by]) {
  let from = 0, to = 1;
  for (const [start, end, low, high] of [[ax, bx, x, x + w], [ay, by, y, y + h]]) {
    const run = end - start;
    if (run === 0) {
      if (start < low || start > high) return false;
    } else {
      const [near, far] = [(low - start) / run, (high - start) / run];
      from = Math.max(from, Math.min(near, far));
      to = Math.min(to, Math.max(near, far));
    }
  }
  return from <= to;
}

// A line is a list of places; one place is a line, too.
const covers = (area, line) => line.some((spot, k) => touches(area, spot, line[Math.min(k + 1, line.length - 1)]));

const GAP = 14; // pixels between a tooltip and its item, and around the path

// The corner of a tooltip of size (w, h) for a spot in a frame: beside the spot if it then covers
// nothing of the path, else in a corner of the frame, else below it.
function placeTip(w, h, [x, y], [width, height], line) {
  const aside = Math.max(4, Math.min(x + 12, width - w - 4));
  const level = Math.max(4, Math.min(y - h / 2, height - h - 4));
  const over = [aside, y - h - GAP], under = [aside, y + GAP];
  const spots = [...(y > 60 ? [over, under] : [under, over]),
    [x + GAP + 4, level], [x - w - GAP - 4, level],
    [x - w - 12, y - h - GAP], [x - w - 12, y + GAP],
    [width - w - 4, 4], [4, 4], [width - w - 4, height - h - 4], [4, height - h - 4]];
  const free = spots.find(([a, b]) => {
    const area = { x: a, y: b, w, h };
    return within(area, width, height) && !covers(padded(area, 4), [[x, y]])
      && !(line.length && covers(padded(area, 10), line));
  });
  return free || (line.length ? [aside, height + 6] : spots[0]);
}

const LETTERS = { wide: 24, narrow: 14 }; // of a name on the map
const AROUND = [[0, -1], [0, 1], [1, 0], [-1, 0], [0.7, -0.7], [-0.7, -0.7], [0.7, 0.7], [-0.7, 0.7]];
const AWAY = [4, 12, 22, 34, 48, 64, 82]; // pixels between the middle of a cluster and its name
const CELL = 6;

// The densest place of each label, in the units of `positions`, largest labels first.
function densest(data, positions, cell) {
  const grids = data.classes.map(() => new Map());
  for (let i = 0; i < data.labels.length; i++) {
    const key = `${Math.floor(positions(i)[0] / cell)} ${Math.floor(positions(i)[1] / cell)}`;
    const grid = grids[data.labels[i]];
    if (!grid.has(key)) grid.set(key, []);
    grid.get(key).push(i);
  }
  return grids.map((grid, label) => {
    let best = null, most = 0, total = 0;
    for (const [key, members] of grid) {
      const [a, b] = key.split(" ").map(Number);
      const near = [-1, 0, 1].flatMap((da) => [-1, 0, 1].flatMap((db) => grid.get(`${a + da} ${b + db}`) || []));
      total += members.length;
      if (near.length > most) { most = near.length; best = near; }
    }
    if (!best) return null;
    const mean = [0, 1].map((c) => best.reduce((sum, i) => sum + positions(i)[c], 0) / best.length);
    return { label, total, mean };
  }).filter(Boolean).sort((a, b) => b.total - a.total || a.label - b.label);
}

// Boxes for the names of clusters: inside the frame, off the path, off each other, over few marks and
// nearer to their own cluster than to another one. A name without such a box is left out.
function placeNames(clusters, { width, height, eachSpot, line, measure }) {
  const columns = Math.ceil(width / CELL), counts = new Uint16Array(columns * Math.ceil(height / CELL));
  eachSpot((x, y) => {
    if (x >= 0 && y >= 0 && x < width && y < height) counts[Math.floor(y / CELL) * columns + Math.floor(x / CELL)]++;
  });
  const covered = ({ x, y, w, h }) => {
    let sum = 0;
    for (let b = Math.floor(y / CELL); b * CELL < y + h; b++) {
      for (let a = Math.floor(x / CELL); a * CELL < x + w; a++) sum += counts[b * columns + a] || 0;
    }
    return sum;
  };
  const placed = [];
  for (const cluster of clusters) {
    const [x, y] = cluster.at;
    if (x < 0 || y < 0 || x > width || y > height) continue;
    const w = measure(cluster.text) + 6, h = 18;
    let best = null, least = Infinity;
    const moves = AWAY.flatMap((away) => AROUND.map(([a, b]) => [a * (away + w / 2), b * (away + h / 2)]));
    for (const [dx, dy] of [[0, 0], ...moves]) {
      const [a, b] = [x + dx, y + dy];
      const area = { x: a - w / 2, y: b - h / 2, w, h };
      if (!within(area, width, height) || placed.some((other) => overlap(area, padded(other.area, 2)))) continue;
      if (line.length && covers(padded(area, 6), line)) continue;
      const own = Math.hypot(a - x, b - y);
      if (clusters.some(({ at }) => at !== cluster.at && Math.hypot(a - at[0], b - at[1]) < own)) continue;
      const cost = covered(area) + 0.2 * own;
      if (cost < least) { least = cost; best = { label: cluster.label, text: cluster.text, x: a, y: b, area }; }
    }
    if (best) placed.push(best);
  }
  return placed;
}

// Shortest paths and what each source contributes to them, looked up in the embedded tables.

// A path from its items, and per edge its length and parts (those of the sources, then the link's).
function makePath(nodes, length, edges) {
  const sources = edges[0].parts.length - 1;
  const totals = Array.from({ length: sources + 1 },
    (_, r) => edges.reduce((sum, edge) => sum + edge.parts[r], 0));
  return { nodes, length, edges, totals: totals.slice(0, sources), link: totals[sources] };
}

function makePaths(data, table) {
  const n = data.ids.length;
  if (!table) return () => null;
  const { directed } = table;

  // Where the items between the ends of each pair begin, and which pairs have a length of their own.
  const starts = new Uint32Array(table.counts.length + 1);
  const own = new Uint32Array(table.counts.length + 1);
  table.counts.forEach((count, p) => {
    starts[p + 1] = starts[p] + count;
    own[p + 1] = own[p] + (count > 0 ? 1 : 0);
  });

  const key = (i, j) => (directed || i < j ? i * n + j : j * n + i);

  function search(keys, wanted) {
    let low = 0, high = keys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (keys[middle] < wanted) low = middle + 1; else high = middle;
    }
    return keys[low] === wanted ? low : -1;
  }

  // All pairs are in order: the row of i, without i itself, and without those before it.
  function pairOf(i, j) {
    if (!table.complete) return search(table.pairs, key(i, j));
    if (directed) return i * (n - 1) + j - (j > i ? 1 : 0);
    const [a, b] = i < j ? [i, j] : [j, i];
    return a * n - (a * (a + 1)) / 2 + b - a - 1;
  }

  function edgeOf(from, to) {
    const e = search(table.edges, key(from, to));
    const length = table.edgeLengths[e];
    const parts = table.parts.map((values, r) =>
      (values ? table.scales[r] * (values[e] / LEVELS) ** 2 : 0));
    parts[table.largest] = length - table.link - parts.reduce((sum, part) => sum + part, 0);
    return { from, to, length, parts: [...parts, table.link], said: data.said.get(key(from, to)) };
  }

  // The path from i to j, or null if it is not embedded.
  return (i, j) => {
    const pair = pairOf(i, j);
    if (pair < 0) return null;
    const between = Array.from(table.between.subarray(starts[pair], starts[pair + 1]));
    if (!directed && i > j) between.reverse();
    const nodes = [i, ...between, j];
    const edges = nodes.slice(1).map((v, k) => edgeOf(nodes[k], v));
    return makePath(nodes, between.length ? table.lengths[own[pair]] : edges[0].length, edges);
  };
}

// The path from what a server has computed.
function pathFromRecord({ nodes, length, parts, phrases }) {
  const edges = parts.map((found, k) => ({
    from: nodes[k], to: nodes[k + 1], parts: found, said: phrases && phrases[k],
    length: found.reduce((sum, part) => sum + part, 0),
  }));
  return makePath(nodes, length, edges);
}

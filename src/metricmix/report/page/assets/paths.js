// Shortest paths and what each source contributes to them, looked up in the embedded tables.

function makePaths(data) {
  const table = data.paths;
  const n = data.ids.length;
  const sources = data.weights.length;
  if (!table) return () => null;

  const key = (i, j) => (table.directed || i < j ? i * n + j : j * n + i);

  function place(keys, wanted) {
    let low = 0, high = keys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (keys[middle] < wanted) low = middle + 1; else high = middle;
    }
    return keys[low] === wanted ? low : -1;
  }

  // The path from i to j: its items, and per edge the parts of its length; null if not embedded.
  return (i, j) => {
    const pair = place(table.pairs, key(i, j));
    if (pair < 0) return null;
    const between = Array.from(table.between.subarray(table.indptr[pair], table.indptr[pair + 1]));
    if (!table.directed && i > j) between.reverse();
    const nodes = [i, ...between, j];
    const totals = new Array(sources).fill(0);
    const edges = nodes.slice(1).map((v, k) => {
      const start = place(table.edges, key(nodes[k], v)) * sources;
      const parts = Array.from(table.parts.subarray(start, start + sources));
      parts.forEach((part, r) => { totals[r] += part; });
      return { from: nodes[k], to: v, length: parts.reduce((a, b) => a + b, table.link) };
    });
    const length = edges.reduce((sum, edge) => sum + edge.length, 0);
    return { nodes, edges, totals, link: table.link * edges.length, length };
  };
}

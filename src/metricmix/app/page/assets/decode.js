// The data of the page: JSON, and its arrays packed: deflated, in base64, byte planes apart.

const KINDS = { f4: Float32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array };
const LEVELS = 65535;

async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function unpack(all, { type, start, length }) {
  const made = new KINDS[type](length);
  const bytes = new Uint8Array(made.buffer), wide = made.BYTES_PER_ELEMENT;
  for (let plane = 0; plane < wide; plane++) {
    const from = start + plane * length;
    for (let k = 0; k < length; k++) bytes[k * wide + plane] = all[from + k];
  }
  return made;
}

function summed(differences) {
  for (let k = 1; k < differences.length; k++) differences[k] += differences[k - 1];
  return differences;
}

async function readData() {
  const data = JSON.parse(byId("data").textContent);
  const all = await inflate(byId("arrays").textContent);
  const take = (name) => unpack(all, data.arrays[name]);
  for (const name of ["labels", "given", "misfit"]) data[name] = take(name);
  for (const name of ["confidence", "prefers", "nearest", "target", "predicted"]) {
    data[name] = name in data.arrays ? take(name) : null;
  }
  if (data.confidence) data.confidence = Float32Array.from(data.confidence, (u) => u / LEVELS);
  data.palette.ordered = data.target !== null; // classes are ranges of a number
  if (data.nearest) data.nearest = Int32Array.from(data.nearest, (u) => u - 1);
  data.views.forEach((view, k) => {
    const { low, span } = view;
    view.coordinates = Float32Array.from(take(`view ${k}`), (u, c) => low[c % 2] + (span * u) / LEVELS);
  });
  for (const [table, prefix] of [[data.paths, ""], [data.chains, "chain "]]) {
    if (!table) continue;
    const { scales, largest, complete } = table;
    Object.assign(table, {
      pairs: complete ? null : summed(take(`${prefix}pairs`)),
      counts: take(`${prefix}counts`),
      between: take(`${prefix}between`),
      lengths: take(`${prefix}lengths`),
      edges: summed(take(`${prefix}edges`)),
      edgeLengths: take(`${prefix}edge lengths`),
      parts: scales.map((_, r) => (r === largest ? null : take(`${prefix}part ${r}`))),
    });
  }
  data.said = new Map();
  if ("phrases" in data.arrays) {
    const phrases = JSON.parse(new TextDecoder().decode(take("phrases")));
    summed(take("phrase keys")).forEach((key, k) => data.said.set(key, phrases[k]));
  }
  return data;
}

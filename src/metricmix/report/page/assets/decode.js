// The data of the page: JSON, with large arrays packed as base64.

const KINDS = { f4: Float32Array, u4: Uint32Array, u2: Uint16Array };

function unpack({ type, base64 }) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new KINDS[type](bytes.buffer);
}

function readData() {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const view of data.views) view.coordinates = unpack(view.coordinates);
  if (data.paths) {
    for (const name of ["pairs", "indptr", "between", "edges", "parts"]) {
      data.paths[name] = unpack(data.paths[name]);
    }
  }
  return data;
}

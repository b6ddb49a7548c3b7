// The view in the address of the page: #pair=A/B&map=NAME&label=NAME&zoom=SCALE,X,Y.
// Ids and names are percent-encoded; lone surrogates, which cannot be, become U+FFFD.

const LONGEST_ADDRESS = 20000;
const ZOOMS = [0.5, 60];

const writable = (text) => text.replace(/\p{Surrogate}/gu, "\ufffd");
const encoded = (text) => encodeURIComponent(writable(text));

function addressOf(data, { chosen, view, label, zoom }) {
  const parts = [];
  if (chosen.length) parts.push(`${chosen.length > 1 ? "pair" : "item"}=${chosen.map((i) => encoded(data.ids[i])).join("/")}`);
  if (view > 0) parts.push(`map=${encoded(data.views[view].name)}`);
  if (label >= 0) parts.push(`label=${encoded(data.classes[label])}`);
  if (zoom) parts.push(`zoom=${zoom.map((value) => Number(value.toPrecision(4))).join(",")}`);
  return parts.length ? `#${parts.join("&")}` : "";
}

// What an address asks for; parts that this page does not know are left out. Null without any part,
// and `missing` where it names an item that is not here. #A/B, as older pages wrote it, is read too.
function readAddress(data, hash) {
  const text = hash.replace(/^#/, "").slice(0, LONGEST_ADDRESS);
  if (!text) return null;
  const asked = { chosen: [], view: 0, label: -1, zoom: null, missing: false };
  const decoded = (part) => { try { return decodeURIComponent(part); } catch { return null; } };
  const find = (names, part) => names.findIndex((name) => writable(name) === decoded(part));
  const items = (value) => {
    const found = value.split("/", 2).map((part) => find(data.ids, part));
    asked.missing = found.includes(-1);
    asked.chosen = [...new Set(found.filter((i) => i >= 0))];
  };
  if (!text.includes("=")) items(text);
  for (const part of text.includes("=") ? text.split("&") : []) {
    const [name, value = ""] = part.split("=", 2);
    if (name === "pair" || name === "item") items(value);
    if (name === "map") asked.view = Math.max(0, 1 + find(data.views.slice(1).map((view) => view.name), value));
    if (name === "label") asked.label = find(data.classes, value);
    if (name === "zoom") {
      const [k, x, y] = value.split(",").map(Number);
      const fits = k >= ZOOMS[0] && k <= ZOOMS[1] && x >= -1 && x <= 2 && y >= -1 && y <= 2;
      if (fits) asked.zoom = [k, x, y];
    }
  }
  return asked;
}

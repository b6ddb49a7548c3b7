// Elements and numbers. Texts from the data are only ever set as text.

const byId = (id) => document.getElementById(id);

function element(name, content, attributes = {}) {
  const made = document.createElement(name);
  if (content !== undefined) made.append(...[].concat(content));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A text from the data inside a sentence: its direction of writing does not disturb the rest.
const named = (text) => element("bdi", text);

const short = (value, digits = 4) => (value === null ? "–" : String(Number(value.toPrecision(digits))));

// Decimals that show a length of this size by four digits: its parts are shown by as many.
const decimalsOf = (length) =>
  Math.min(12, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(length) || 1))));

const round2 = (value) => Math.round(100 * value) / 100;

const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);

const counted = (count, one, many = `${one}s`) => `${count} ${String(count) === "1" ? one : many}`;

// What a map shows, in words.
const viewName = ({ views }, k) => (views[k].chains ? views[k].name : k ? `${views[k].name} alone` : "learned metric");

const MOST_LETTERS = 80;

function cut(text, most = MOST_LETTERS) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

// What an item is called, after its id: cut where it is long, whole in its title.
function called(data, i) {
  const text = data.about[i];
  return text && text !== data.ids[i] ? [" ", element("bdi", cut(text), { class: "about", title: text })] : [];
}

const labelOf = (data, i) => named(data.target ? short(data.target[i]) : data.classes[data.labels[i]]);

function describe(data, i) {
  if (data.target) {
    return [labelOf(data, i), data.given[i] ? ` (known; predicted ${short(data.predicted[i])})` : " (predicted)"];
  }
  const kind = !data.misfit[i] ? [data.given[i] ? "given" : "predicted"]
    : ["given; predicted ", data.prefers ? named(data.classes[data.prefers[i]]) : "another"];
  return [labelOf(data, i), " (", ...kind, ")"];
}

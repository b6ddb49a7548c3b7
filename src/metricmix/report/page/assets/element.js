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

function describe(data, i) {
  const kind = data.misfit[i] ? "given, but the rule prefers another"
    : data.given[i] ? "given" : "found";
  return [named(data.classes[data.labels[i]]), ` (${kind})`];
}

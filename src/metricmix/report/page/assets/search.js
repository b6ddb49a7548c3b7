// Finding items by name, and naming them in the address of the page.

const SUGGESTED = 20;

function makeSearch(data, form, input, list, { onFound, onMissing }) {
  const folded = data.ids.map((id) => id.toLowerCase());

  // The item that is meant: of this very name, else of this name but for case, else the first
  // that has the text in its name.
  function suggest() {
    const text = input.value.toLowerCase();
    const hits = [];
    for (let i = 0; text && i < folded.length && hits.length < SUGGESTED; i++) {
      if (folded[i].includes(text)) hits.push(i);
    }
    list.replaceChildren(...hits.map((i) => element("option", undefined, { value: data.ids[i] })));
    const own = data.ids.indexOf(input.value);
    const exact = own >= 0 ? own : folded.indexOf(text);
    return exact >= 0 ? exact : hits.length ? hits[0] : -1;
  }

  function found(i) {
    onFound(i);
    input.select();
  }

  input.addEventListener("input", (event) => {
    const i = suggest();
    const picked = !event.inputType || event.inputType === "insertReplacementText";
    if (picked && i >= 0 && data.ids[i] === input.value) found(i); // from the list
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!input.value) return;
    const i = suggest();
    if (i >= 0) found(i); else onMissing(input.value);
  });
}

// #A/B stands for two chosen items, by their ids.
const hashOf = (data, chosen) =>
  (chosen.length ? `#${chosen.map((i) => encodeURIComponent(data.ids[i])).join("/")}` : "");

function itemsOfHash(data, hash) {
  try {
    const ids = hash.replace(/^#/, "").split("/").map(decodeURIComponent);
    const items = ids.map((id) => data.ids.indexOf(id)).filter((i) => i >= 0);
    return [...new Set(items)].slice(0, 2);
  } catch {
    return []; // not an address that this page wrote
  }
}

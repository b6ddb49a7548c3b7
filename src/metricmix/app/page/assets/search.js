// Finding items by name.

const SUGGESTED = 20;

function makeSearch(data, form, input, list, { onFound, onMissing }) {
  const folded = data.ids.map((id) => id.toLowerCase());
  const titles = data.about.map((text) => text.toLowerCase());

  // The item that is meant: of this very id, else of this id or title but for case, else the first
  // that has the text in its id, else in its title.
  function suggest() {
    const text = input.value.toLowerCase();
    const hits = new Set();
    for (const words of [folded, titles]) {
      for (let i = 0; text && i < words.length && hits.size < SUGGESTED; i++) {
        if (words[i].includes(text)) hits.add(i);
      }
    }
    list.replaceChildren(...Array.from(hits, (i) =>
      element("option", undefined, { value: data.ids[i], label: cut(data.about[i] || data.ids[i]) })));
    const exact = [data.ids.indexOf(input.value), folded.indexOf(text), titles.indexOf(text)];
    return [...exact, ...hits].find((i) => i >= 0) ?? -1;
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

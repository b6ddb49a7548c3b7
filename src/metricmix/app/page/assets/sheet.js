// On a narrow screen the panel slides up from the lower edge, near the finger, when an item is tapped.
// It is closed by its button, or pulled down; elsewhere, and before the first tap, it is part of the page.

const PULLED = 40; // pixels by which it is pulled to close, or to open wide

function makeSheet(sheet, grip) {
  const narrow = matchMedia("(max-width: 60rem)");
  const more = grip.querySelector("#more");
  let start = null;

  function widen(wide) {
    sheet.classList.toggle("wide", wide);
    more.setAttribute("aria-expanded", String(wide));
    more.setAttribute("aria-label", wide ? "Show less" : "Show more");
  }

  function close() {
    sheet.classList.remove("up");
    document.body.style.removeProperty("padding-bottom");
    grip.hidden = true;
    widen(false);
  }

  // `lowest` is the lower end, on the screen, of what must stay in sight.
  function open(lowest) {
    if (!narrow.matches) return;
    grip.hidden = false;
    sheet.classList.add("up");
    sheet.scrollTop = 0;
    const height = sheet.offsetHeight;
    document.body.style.paddingBottom = `${height}px`;
    const hidden = lowest + 24 - (window.innerHeight - height);
    if (hidden > 0) window.scrollBy({ top: hidden, behavior: "auto" });
  }

  more.addEventListener("click", () => widen(!sheet.classList.contains("wide")));
  grip.querySelector("#close").addEventListener("click", close);
  grip.addEventListener("pointerdown", (event) => { start = event.clientY; });
  grip.addEventListener("pointerup", (event) => {
    const pulled = start === null ? 0 : event.clientY - start;
    start = null;
    if (pulled > PULLED) { if (sheet.classList.contains("wide")) widen(false); else close(); }
    if (pulled < -PULLED) widen(true);
  });
  narrow.addEventListener("change", close);
  return { open, close };
}

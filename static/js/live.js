// Parts of a page that ask again every few seconds rest while nobody looks at the tab.
document.addEventListener("htmx:beforeRequest", (event) => {
  const asksAgain = event.detail.elt.getAttribute("hx-trigger")?.startsWith("every");
  if (asksAgain && document.hidden) event.preventDefault();
});

// What somebody unfolded stays unfolded when the part is renewed, and keeps its place; both are found again by their ids.
let unfolded = [];
document.addEventListener("htmx:beforeSwap", (event) => {
  unfolded = [...event.detail.target.querySelectorAll("details[open][id]")].map((part) => [
    part.id,
    part.querySelector("pre")?.scrollTop ?? 0,
  ]);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const [id, top] of unfolded) {
    const part = document.getElementById(id);
    if (!part) continue;
    part.open = true;
    const text = part.querySelector("pre");
    if (text) text.scrollTop = top;
  }
});

// A form that its answer replaces keeps what somebody typed or chose since the request, and the caret.
let touched = new Set();
let kept = [];
document.addEventListener("input", (event) => touched.add(event.target));
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.elt.matches("form")) touched = new Set();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const form = event.detail.target;
  kept = form.matches("form") ? [...touched].filter((field) => form.contains(field)) : [];
  kept = kept.map((field) => ({ field, caret: field === document.activeElement ? field.selectionStart : null }));
});
document.addEventListener("htmx:afterSwap", () => {
  for (const { field, caret } of kept.splice(0)) {
    const isTick = /^(radio|checkbox)$/.test(field.type);
    const again = [...document.getElementsByName(field.name)].find((each) => !isTick || each.value === field.value);
    if (!again) continue;
    if (isTick) again.checked = field.checked;
    else again.value = field.value;
    // The server has not seen it: it does now, or when somebody leaves the field.
    const send = () => again.dispatchEvent(new Event("change", { bubbles: true }));
    if (caret === null) {
      send();
    } else {
      again.setSelectionRange(caret, caret);
      again.addEventListener("blur", send, { once: true });
    }
  }
});

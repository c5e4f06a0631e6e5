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

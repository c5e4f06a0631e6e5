// Parts of a page that ask again every few seconds rest while nobody looks at the tab.
document.addEventListener("htmx:beforeRequest", (event) => {
  const asksAgain = event.detail.elt.getAttribute("hx-trigger")?.startsWith("every");
  if (asksAgain && document.hidden) event.preventDefault();
});

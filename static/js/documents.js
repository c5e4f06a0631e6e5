// The tree of documents keeps its place from page to page, with the current page in sight; opened contents close behind
// their link; the glossary shows the words that hold what is typed.

const tree = document.getElementById("doc-tree");
if (tree) {
  tree.scrollTop = Number(sessionStorage.getItem("doc-tree"));
  const here = tree.querySelector("[aria-current]")?.getBoundingClientRect();
  const frame = tree.getBoundingClientRect();
  if (here && (here.top < frame.top || here.bottom > frame.bottom)) tree.scrollTop += here.top - frame.top - frame.height / 2;
  addEventListener("pagehide", () => sessionStorage.setItem("doc-tree", tree.scrollTop));
}

const contents = document.getElementById("doc-contents");
contents?.addEventListener("click", (event) => {
  if (event.target.closest("a") && contents.matches(":popover-open")) contents.hidePopover();
});

const narrows = document.querySelector("[data-narrows]");
if (narrows) {
  narrows.hidden = false;
  const parts = [...document.querySelectorAll(".of-words > *")];
  narrows.addEventListener("input", () => {
    const wanted = narrows.value.trim().toLowerCase();
    for (const part of parts) {
      const rows = [...part.querySelectorAll("tbody tr")];
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      part.hidden = Boolean(wanted) && !rows.some((row) => !row.hidden);
    }
  });
}

// The tree of documents keeps its place from page to page, with the current page in sight; opened contents close behind their link.

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

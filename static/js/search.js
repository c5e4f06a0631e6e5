// The search box proposes what may stand at the cursor; / comes back to it, j and k walk the hits.
// Without this file the form, the facets and the links do the same work.

const form = document.querySelector("[data-complete]");
const box = form?.querySelector("input[type=search]");
const list = document.getElementById("proposals");
const facets = document.querySelector("details.facets");
let proposals = [];
let chosen = -1;
let asked = 0;
let timer = 0;

if (facets && matchMedia("(max-width: 760px)").matches) facets.open = false;

if (box) {
  box.setAttribute("role", "combobox");
  box.setAttribute("aria-autocomplete", "list");
  box.setAttribute("aria-controls", list.id);
  close();
  // Proposals name places in the text that was sent: none of them, nor a reply on its way, fits the text typed since.
  box.addEventListener("input", () => { close(); timer = setTimeout(ask, 120); });
  box.addEventListener("blur", () => setTimeout(close, 150));
  box.addEventListener("keydown", onKey);
}

async function ask() {
  const mine = ++asked;
  const query = new URLSearchParams({ q: box.value, at: [...box.value.slice(0, box.selectionStart)].length });
  const reply = await fetch(`${form.dataset.complete}?${query}`, { headers: { Accept: "application/json" } });
  if (!reply.ok || mine !== asked) return;
  proposals = (await reply.json()).proposals;
  show();
}

function show() {
  chosen = -1;
  list.replaceChildren(...proposals.map((each, place) => {
    const row = document.createElement("li");
    row.id = `proposal-${place}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", "false");
    const text = document.createElement("code");
    text.textContent = each.text.trim();
    const means = document.createElement("span");
    means.textContent = each.means;
    row.append(text, means);
    row.addEventListener("mousedown", (event) => { event.preventDefault(); take(place); });
    return row;
  }));
  list.hidden = proposals.length === 0;
  box.setAttribute("aria-expanded", String(!list.hidden));
}

function close() {
  clearTimeout(timer);
  asked += 1;
  proposals = [];
  chosen = -1;
  list.replaceChildren();
  list.hidden = true;
  box.setAttribute("aria-expanded", "false");
  box.removeAttribute("aria-activedescendant");
}

function choose(place) {
  chosen = (place + proposals.length) % proposals.length;
  [...list.children].forEach((row, at) => row.setAttribute("aria-selected", String(at === chosen)));
  list.children[chosen].scrollIntoView({ block: "nearest" });
  box.setAttribute("aria-activedescendant", `proposal-${chosen}`);
}

function take(place) {
  const { text, start, end } = proposals[place];
  const characters = [...box.value]; // the server counts characters, not UTF-16 units
  const before = characters.slice(0, start).join("") + text;
  box.value = before + characters.slice(end).join("").trimStart();
  box.setSelectionRange(before.length, before.length);
  close();
  if (text.endsWith(":")) ask();
}

function onKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (!proposals.length) ask();
    else choose(chosen < 0 && event.key === "ArrowUp" ? -1 : chosen + (event.key === "ArrowDown" ? 1 : -1));
  } else if (event.key === "Enter" && chosen >= 0) {
    event.preventDefault();
    take(chosen);
  } else if (event.key === "Tab" && chosen >= 0) {
    event.preventDefault();
    take(chosen);
  } else if (event.key === "Escape" && proposals.length) {
    event.preventDefault();
    close();
  } else if (event.key === "Escape") {
    box.blur();
  }
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
  if (event.key !== "j" && event.key !== "k") return;
  const hits = [...document.querySelectorAll("[data-hit]")];
  const at = hits.indexOf(document.activeElement);
  const next = hits[at < 0 ? 0 : at + (event.key === "j" ? 1 : -1)];
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
});

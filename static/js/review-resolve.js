// Keys of the page that resolves an item. A digit ticks a code; f, a and w arm a group whose keys follow; / finds a code
// by name; e is the memo. What was chosen stays in this tab while the evidence is paged through, until it is sent.

const form = document.querySelector("form[data-resolve]");
const find = document.getElementById("find");
const memo = document.getElementById("memo");
let armed = null;

const boxes = () => [...form.querySelectorAll('input[name="codes"]')];

function keep() {
  const chosen = new FormData(form);
  const state = { codes: chosen.getAll("codes"), category: chosen.get("category"), attribution: chosen.get("attribution"), memo: memo.value };
  sessionStorage.setItem(`resolve ${form.dataset.resolve}`, JSON.stringify(state));
}

function restore() {
  const kept = sessionStorage.getItem(`resolve ${form.dataset.resolve}`);
  if (!kept || document.querySelector('[role="alert"]')) return; // what was just refused is in the form already
  const state = JSON.parse(kept);
  for (const box of boxes()) box.checked = state.codes.includes(box.value);
  for (const name of ["category", "attribution"]) {
    const radio = [...form.querySelectorAll(`input[name="${name}"]`)].find((each) => each.value === state[name]);
    if (radio) radio.checked = true;
  }
  memo.value = state.memo;
}

function arm(group) {
  armed?.classList.remove("armed");
  armed = group;
  group?.classList.add("armed");
  group?.scrollIntoView({ block: "nearest" });
}

function startFrom(ids) {
  const wanted = new Set(ids.split(" "));
  for (const box of boxes()) box.checked = wanted.has(box.value);
  keep();
}

function narrow() {
  const text = find.value.trim().toLowerCase();
  for (const box of boxes()) {
    const name = box.parentElement.querySelector(".choice-name").textContent.toLowerCase();
    box.closest("li").hidden = !name.includes(text);
  }
}

function leaveFind() {
  find.value = "";
  narrow();
  find.blur();
}

function pressed(key) {
  if (armed) {
    const target = armed.querySelector(`[data-then="${CSS.escape(key)}"]`);
    target?.click();
    arm(null);
    return true;
  }
  const direct = form.querySelector(`[data-direct="${CSS.escape(key)}"]`);
  const group = form.querySelector(`[data-prefix="${CSS.escape(key)}"]`);
  if (direct) direct.click();
  else if (group) arm(group);
  else if (key === "/") find.focus();
  else if (key === "e") memo.focus();
  else return false;
  return true;
}

// Before steps.js and keys.js, which know nothing of an armed group.
function onKey(event) {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    arm(null);
    if (event.target === find) leaveFind();
    else event.target.blur?.();
    return;
  }
  if (event.target === find && event.key === "Enter") {
    event.preventDefault();
    boxes().find((box) => !box.closest("li").hidden)?.click();
    leaveFind();
    return;
  }
  if (event.target.closest?.('textarea, select, input:not([type="checkbox"], [type="radio"])')) return;
  if (event.key.length === 1 && event.key !== " " && pressed(event.key)) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}

if (form) {
  restore();
  document.addEventListener("keydown", onKey, true);
  find.addEventListener("input", narrow);
  form.addEventListener("input", keep);
  form.addEventListener("change", keep);
  form.addEventListener("click", (event) => {
    const start = event.target.closest("[data-start]");
    if (start) startFrom(start.dataset.start);
  });
  form.addEventListener("submit", () => sessionStorage.removeItem(`resolve ${form.dataset.resolve}`));
}

// Keys of the page that settles an item. Digits tick a code, as when coding; =, a and t arm a group whose keys follow;
// # finds a code by name; w is the memo. What was chosen stays in this tab while the evidence is paged through.

const form = document.querySelector("form[data-resolve]");
const find = document.getElementById("find");
const memo = document.getElementById("memo");
const others = form?.querySelector(".other-codes");
const nothing = form?.querySelector('[name="nothing_wrong"]'); // said aloud: nothing is wrong here
let armed = null;
let typed = ""; // the first keys of a code in a group

const boxes = () => [...form.querySelectorAll('input[name="codes"]')];
const boxOf = (keys) => form.querySelector(`[data-direct="${CSS.escape(keys)}"]`);

// Codes come first in the form, so an empty one is pointed at before the reason.
function check() {
  const isGiven = nothing.checked || boxes().some((box) => box.checked);
  nothing.setCustomValidity(isGiven ? "" : nothing.dataset.empty);
}

function keep() {
  check();
  const chosen = new FormData(form);
  const state = { codes: chosen.getAll("codes"), category: chosen.get("category"), attribution: chosen.get("attribution"), memo: memo.value, nothing: nothing.checked };
  sessionStorage.setItem(`resolve ${form.dataset.resolve}`, JSON.stringify(state));
}

function restore() {
  const kept = sessionStorage.getItem(`resolve ${form.dataset.resolve}`);
  if (!kept || document.querySelector('[role="alert"]')) return; // what was just refused is in the form already
  const state = JSON.parse(kept);
  for (const box of boxes()) box.checked = state.codes.includes(box.value);
  for (const name of ["category", "attribution"]) {
    const radio = [...form.querySelectorAll(`input[name="${name}"]`)].find((each) => each.value === state[name]);
    if (!radio || radio.checked) continue;
    radio.checked = true;
    openFold(radio);
  }
  memo.value = state.memo;
  nothing.checked = Boolean(state.nothing);
}

function openFold(inside) {
  const fold = inside?.closest("details");
  if (fold) fold.open = true;
}

function arm(group) {
  armed?.classList.remove("armed");
  armed = group;
  openFold(group);
  group?.classList.add("armed");
  group?.scrollIntoView({ block: "nearest" });
}

// Ids of codes; `empty`: a review that says that nothing is wrong.
function startFrom(ids, empty = false) {
  const wanted = new Set(ids.split(" "));
  for (const box of boxes()) box.checked = wanted.has(box.value);
  nothing.checked = empty;
  keep();
}

// Codes and "nothing wrong" exclude each other: what was ticked last stays.
function exclude(ticked) {
  if (!ticked.checked) return;
  if (ticked === nothing) for (const box of boxes()) box.checked = false;
  else if (ticked.name === "codes") nothing.checked = false;
}

function narrow() {
  const text = find.value.trim().toLowerCase();
  if (text) others.open = true;
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

// Keys of codes: a code with none below it is ticked at once, a group waits for its second key or Enter.
function code(keys) {
  const isGroup = form.querySelector(`[data-direct^="${CSS.escape(keys)}"]:not([data-direct="${CSS.escape(keys)}"])`);
  typed = isGroup ? keys : "";
  openFold(boxOf(keys));
  for (const box of boxes()) box.closest("li").classList.toggle("is-next", Boolean(typed) && (box.dataset.direct ?? "").startsWith(typed));
  if (isGroup) boxOf(keys)?.scrollIntoView({ block: "nearest" });
  else boxOf(keys)?.click();
}

function endCode(box = null) {
  typed = "";
  for (const each of boxes()) each.closest("li").classList.remove("is-next");
  box?.click();
}

function pressed(key) {
  if (typed) {
    if (key === "Enter") endCode(boxOf(typed));
    else if (boxOf(typed + key)) code(typed + key);
    else endCode();
    return true;
  }
  if (armed) {
    armed.querySelector(`[data-then="${CSS.escape(key)}"]`)?.click();
    arm(null);
    return true;
  }
  const group = form.querySelector(`[data-prefix="${CSS.escape(key)}"]`);
  if (boxOf(key)) code(key);
  else if (group) arm(group);
  else if (key === "0") nothing.click();
  else if (key === "#") find.focus();
  else if (key === "w") memo.focus();
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
    endCode();
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
  const isMine = (event.key.length === 1 && event.key !== " ") || (typed && event.key === "Enter");
  if (isMine && pressed(event.key)) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}

if (form) {
  restore();
  check();
  document.addEventListener("keydown", onKey, true);
  find.addEventListener("input", narrow);
  form.addEventListener("input", keep);
  form.addEventListener("change", (event) => {
    exclude(event.target);
    keep();
  });
  form.addEventListener("click", (event) => {
    const start = event.target.closest("[data-start]");
    if (start) startFrom(start.dataset.start, "nothing" in start.dataset);
  });
  form.addEventListener("submit", () => sessionStorage.removeItem(`resolve ${form.dataset.resolve}`));
}

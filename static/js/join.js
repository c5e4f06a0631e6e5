// The code of an invitation stands behind the # of its address, where no server sees it. Move it into the form, and out of the history.

const code = document.querySelector("#id_code");
const form = code.form;
if (location.hash.length > 1) {
  code.value = decodeURIComponent(location.hash.slice(1));
  code.closest("div").hidden = true; // nothing to type: the link brought it
  history.replaceState(null, "", location.pathname + location.search);
  check();
}
const first = [...document.querySelectorAll(".door input:not([type=hidden])")].find((field) => !field.value);
first?.focus();

// Say whether the link still works before anybody chooses a password.
async function check() {
  const asked = new FormData();
  for (const name of ["csrfmiddlewaretoken", "code"]) asked.set(name, form.elements[name].value);
  asked.set("check", "1");
  const answer = await fetch(location.pathname, { method: "POST", body: asked }).catch(() => null);
  const state = form.querySelector("#link-state");
  if (answer?.ok) state.textContent = await answer.text();
  else if (answer?.status === 422) {
    state.textContent = "This link is not valid: it was used, has expired or was withdrawn. Ask for a new one.";
    state.className = "note bad";
    for (const part of form.querySelectorAll(".ask")) part.remove();
  }
}

// An alert of the browser when the newest alert of the page changes; asks for permission only when somebody wants it.

const live = () => document.querySelector("#live");
let seen = live()?.dataset.alert;

function update() {
  const button = document.querySelector("[data-notify]");
  if (button) button.hidden = !("Notification" in window) || Notification.permission !== "default";
  const { alert, words } = live()?.dataset ?? {};
  if (!alert || alert === seen) return;
  seen = alert;
  if ("Notification" in window && Notification.permission === "granted") new Notification("Skillglass", { body: words, tag: alert });
}

document.addEventListener("click", async (event) => {
  if (!event.target.closest("[data-notify]")) return;
  await Notification.requestPermission();
  update();
});
document.addEventListener("htmx:afterSettle", update);
update();

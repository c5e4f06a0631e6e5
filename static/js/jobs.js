// An alert of the browser when the newest alert of the page changes; asks for permission only when somebody wants it.

const live = () => document.querySelector("#live");
let seen = live()?.dataset.alert;
let isAsked = false; // the browser asks where it likes, or not at all

function update() {
  const button = document.querySelector("[data-notify]");
  if (button) {
    const state = "Notification" in window ? Notification.permission : "missing";
    button.hidden = state === "missing";
    button.disabled = state !== "default";
    button.textContent = { granted: "You are notified while this page is open", denied: "This browser blocks notifications" }[state] ?? (isAsked ? "Allow it in your browser" : "Notify me");
  }
  const { alert, words } = live()?.dataset ?? {};
  if (!alert || alert === seen) return;
  seen = alert;
  if ("Notification" in window && Notification.permission === "granted") new Notification("Skillglass", { body: words, tag: alert });
}

document.addEventListener("click", async (event) => {
  if (!event.target.closest("[data-notify]")) return;
  isAsked = true;
  update();
  await Notification.requestPermission();
  update();
});
document.addEventListener("htmx:afterSettle", update);
update();

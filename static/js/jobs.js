// An alert of the browser when the newest alert of the page changes; asks for permission only when somebody wants it.

const live = () => document.querySelector("#live");
let seen = live()?.dataset.alert;
const isOn = () => localStorage.getItem("notices") === "on";
const OFFER = "Notify me when a job ends or needs me";
let isAsked = false; // the browser asks where it likes, or not at all

function update() {
  const button = document.querySelector("[data-notify]");
  if (button) {
    const state = "Notification" in window ? Notification.permission : "missing";
    button.hidden = state === "missing";
    button.disabled = state === "denied";
    const granted = isOn() ? "Stop notifying me" : OFFER;
    button.textContent = { granted, denied: "Notifications are blocked: allow them in this site's settings" }[state] ?? (isAsked ? "Choose Allow where the browser asks" : OFFER);
  }
  const { alert, words } = live()?.dataset ?? {};
  if (!alert || alert === seen) return;
  seen = alert;
  if ("Notification" in window && Notification.permission === "granted" && isOn()) new Notification("Skillglass", { body: words, tag: alert });
}

document.addEventListener("click", async (event) => {
  if (!event.target.closest("[data-notify]")) return;
  const wants = Notification.permission !== "granted" || !isOn();
  isAsked = true;
  update();
  const answer = await Notification.requestPermission();
  if (answer === "granted") localStorage.setItem("notices", wants ? "on" : "off");
  if (answer === "granted" && wants) new Notification("Skillglass", { body: "You are notified while this page is open.", tag: "notices" });
  update();
});
document.addEventListener("htmx:afterSettle", update);
update();

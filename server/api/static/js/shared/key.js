// @ts-check
/** The server's key, where it wants one: asked for once, kept as long as the tab. What it is not: an account. */
import { icon, make } from "./dom.js";

const NAME = "onbeat.key";

/** @returns {string | null} */
export function heldKey() {
  try {
    return sessionStorage.getItem(NAME);
  } catch {
    return null; // storage is forbidden: only servers without a key can be used
  }
}

/** The header that bears it. @returns {Record<string, string>} */
export function keyHeader() {
  const key = heldKey();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** Asks for it; the page starts anew with it. */
export function askKey() {
  if (document.getElementById("key-dialog")) return;
  const field = make("input", { id: "key", type: "password", autocomplete: "current-password", required: true });
  const wrong = heldKey() ? make("p", { className: "error", role: "alert" }, "The key that was given is not the server's.") : "";
  const form = make(
    "form",
    { method: "dialog" },
    make("h2", { id: "key-title" }, "This server wants a key"),
    make("div", { className: "field" }, make("label", { for: "key" }, "The key it was started with (ONBEAT_API_KEY)"), make("div", { className: "joined" }, field, make("button", { className: "primary soft" }, "Use it"))),
    wrong,
  );
  const close = make("button", { className: "icon close", "aria-label": "Close" }, icon("close"));
  const dialog = make("dialog", { id: "key-dialog", "aria-labelledby": "key-title" }, make("form", { method: "dialog" }, close), form);
  form.addEventListener("submit", () => {
    sessionStorage.setItem(NAME, field.value);
    location.reload();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
}

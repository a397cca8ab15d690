import { byId, h, say } from "./dom.js";

/** The dialog is made here, because every page needs the same one. */
function makeDialog() {
  const dialog = h(
    "dialog",
    { id: "token-dialog", "aria-labelledby": "token-title" },
    h(
      "form",
      { method: "dialog", id: "token-form" },
      h("h2", { id: "token-title" }, "A token is needed"),
      h("p", { id: "token-reason" }),
      h(
        "label",
        {},
        "Token ",
        h("input", { id: "token-input", type: "password", autocomplete: "off", required: true }),
      ),
      h("p", { class: "note" }, "It is kept in this tab until the tab is closed."),
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", id: "token-cancel", class: "quiet" }, "Cancel"),
        h("button", { type: "submit" }, "Continue"),
      ),
    ),
  );
  document.body.append(dialog);
  return dialog;
}

/**
 * Asks the person for a token and keeps it for this tab under `key`. Resolves to false when the person cancels.
 * @param {string} key
 * @param {string} reason
 */
export function askForToken(key, reason) {
  const dialog = byId("token-dialog") ?? makeDialog();
  const input = byId("token-input");
  say(byId("token-reason"), reason);
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const end = (given) => {
      if (given) sessionStorage.setItem(key, input.value.trim());
      input.value = "";
      dialog.close();
      resolve(given);
    };
    byId("token-form").onsubmit = (event) => {
      event.preventDefault();
      end(true);
    };
    byId("token-cancel").onclick = () => end(false);
    dialog.oncancel = () => end(false);
  });
}

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Makes an element. Texts are always texts: nothing that came from elsewhere is ever parsed as markup.
 * @param {string} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  set(element, properties);
  fill(element, ...children);
  return element;
}

/** Sets attributes, properties (`.value`), listeners (`onclick`) and, with `style`, single style properties. */
export function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element[name] = value;
    else if (name.startsWith(".")) element[name.slice(1)] = value;
    else if (name === "style")
      for (const [key, part] of Object.entries(value)) element.style.setProperty(key, part);
    else if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else {
      const text = value === true ? "" : String(value);
      if (element.getAttribute(name) !== text) element.setAttribute(name, text);
    }
  }
}

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
}

/** Changes a text only where it differs, so that a screen reader hears of changes alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The note of a list. In a cluster, an answer without some lanes says so: what is not in it may exist. */
export function note(element, { incomplete }, text) {
  say(element, incomplete === undefined ? text : `${incomplete}.`);
}

/**
 * Makes a container hold one element for each item, in order, and keeps those it has: focus and selection stay.
 * @template T
 * @param {HTMLElement} container
 * @param {readonly T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => HTMLElement} create
 * @param {(element: HTMLElement, item: T) => void} update
 */
export function keep(container, items, keyOf, create, update) {
  const known = new Map([...container.children].map((element) => [element.dataset.key, element]));
  let previous = null;
  for (const item of items) {
    const key = keyOf(item);
    let element = known.get(key);
    if (element === undefined) {
      element = create(item);
      element.dataset.key = key;
    }
    known.delete(key);
    update(element, item);
    const place = previous === null ? container.firstElementChild : previous.nextElementSibling;
    if (place !== element) container.insertBefore(element, place);
    previous = element;
  }
  for (const element of known.values()) element.remove();
}

/** @param {string} id */
export const byId = (id) => document.getElementById(id);

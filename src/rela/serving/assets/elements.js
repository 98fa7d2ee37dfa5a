"use strict";
// Elements: found, made, and reached by keyboard.

const byId = (id) => document.getElementById(id);

/** An element with attributes, listeners (onclick ...) and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** "1 translation", "2 translations". */
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** One of the elements is a tab stop; arrow keys move on from it. A row has so many of them. */
function rove(elements, columns = elements.length) {
  elements.forEach((element, place) => {
    element.tabIndex = place === 0 ? 0 : -1;
    element.addEventListener("focus", () => elements.forEach((one) => { one.tabIndex = one === element ? 0 : -1; }));
    element.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const right = getComputedStyle(element).direction === "rtl" ? -1 : 1;
      const steps = { ArrowRight: right, ArrowLeft: -right, ArrowDown: columns, ArrowUp: -columns, Home: -place, End: elements.length - 1 - place };
      const next = elements[place + steps[event.key]];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
  });
}

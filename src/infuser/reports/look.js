// What every page can do, be it a file or live: heat maps are read by pointer, touch and keyboard, pictures are copied.
// Nothing is fetched. The one global is `infuserLook`; a live page calls its `enhance` on parts that come later.
(() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const PAGE_OF_ROWS = 10;
  const PNG_SCALE = 2;
  const TITLE_HEIGHT = 22; // of the line above a copied picture
  const TITLE_LETTER = 7.2;
  const grids = new WeakMap(); // heat map -> its words and values, read once

  // ---- messages to the reader ----

  const tip = element("div", { id: "look-tip", hidden: "" });
  const status = element("div", { id: "look-status", role: "status", "aria-live": "polite" });
  let current = null; // the cell that is shown: {svg, row, column}
  let silence = 0;

  function element(name, attributes, text = "") {
    const made = set(document.createElement(name), attributes);
    made.textContent = text;
    return made;
  }

  function set(changed, attributes) {
    for (const [name, value] of Object.entries(attributes)) changed.setAttribute(name, value);
    return changed;
  }

  function say(text, seconds = 0) {
    clearTimeout(silence);
    status.textContent = text;
    status.classList.toggle("seen", seconds > 0);
    if (seconds > 0) silence = setTimeout(() => say(""), 1000 * seconds);
  }

  // ---- heat maps: which cell, what value ----

  function gridOf(svg) {
    if (!grids.has(svg)) {
      const { rows, columns, values, bytes } = svg.dataset;
      const packed = Uint8Array.from(atob(values), (sign) => sign.charCodeAt(0)).buffer;
      grids.set(svg, {
        rows: JSON.parse(rows),
        columns: JSON.parse(columns),
        values: bytes === "2" ? new Int16Array(packed) : new Int32Array(packed),
      });
    }
    return grids.get(svg);
  }

  // where the keyboard goes on stands in the picture itself, so that a live page can hand it to the next one
  function lastCell(svg) {
    const { rows, columns } = gridOf(svg);
    const [row, column] = (svg.dataset.at ?? "0 0").split(" ").map(Number);
    return { row: Math.min(row, rows.length - 1), column: Math.min(column, columns.length - 1) };
  }

  function value(svg, row, column) {
    const { columns, values } = gridOf(svg);
    return values[row * columns.length + column] / 10000;
  }

  function described(svg, row, column) {
    const { rows, columns } = gridOf(svg);
    const number = value(svg, row, column);
    const sign = svg.dataset.signed && number > 0 ? "+" : "";
    return `${rows[row]} \u2192 ${columns[column]}: ${sign}${number.toFixed(3)}`;
  }

  function show(svg, row, column) {
    const picture = svg.querySelector("image");
    const box = svg.querySelector(".box");
    const cell = Number(svg.dataset.cell);
    if (current?.svg !== svg) hide();
    current = { svg, row, column };
    svg.dataset.at = `${row} ${column}`;
    const [x, y] = ["x", "y"].map((side) => Number(picture.getAttribute(side)));
    set(box, { x: x + column * cell, y: y + row * cell, visibility: "visible" });
    tip.textContent = described(svg, row, column);
    tip.hidden = false;
    placeTip();
  }

  function placeTip() {
    if (!current) return;
    const at = current.svg.querySelector(".box").getBoundingClientRect();
    const left = at.left + at.width / 2 - tip.offsetWidth / 2;
    const above = at.top - tip.offsetHeight - 6;
    // through the object model, which the content security policy allows
    tip.style.left = `${Math.max(4, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${above > 4 ? above : at.bottom + 6}px`;
  }

  function hide() {
    if (!current) return;
    current.svg.querySelector(".box").setAttribute("visibility", "hidden");
    tip.hidden = true;
    current = null;
  }

  function cellUnder(svg, event) {
    const at = svg.querySelector("image").getBoundingClientRect();
    const { rows, columns } = gridOf(svg);
    const column = Math.floor(((event.clientX - at.left) / at.width) * columns.length);
    const row = Math.floor(((event.clientY - at.top) / at.height) * rows.length);
    return row >= 0 && column >= 0 && row < rows.length && column < columns.length ? { row, column } : null;
  }

  function choose(svg, { row, column }) {
    const kind = svg.closest("figure")?.dataset.kind ?? "";
    svg.dispatchEvent(new CustomEvent("infuser:cell", { bubbles: true, detail: { row, column, kind } }));
  }

  // ---- heat maps: pointer, touch, keyboard ----

  function followPointer(svg, event) {
    const under = cellUnder(svg, event);
    if (under) show(svg, under.row, under.column);
    else hide();
  }

  function pressed(svg, event) {
    const under = cellUnder(svg, event);
    if (!under) return;
    show(svg, under.row, under.column);
    say(described(svg, under.row, under.column));
    choose(svg, under);
  }

  function moved(key, ctrl, { row, column }, n_rows, n_columns) {
    const steps = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [row - PAGE_OF_ROWS, column],
      PageDown: [row + PAGE_OF_ROWS, column],
      Home: [ctrl ? 0 : row, 0],
      End: [ctrl ? n_rows - 1 : row, n_columns - 1],
    };
    if (!Object.hasOwn(steps, key)) return null;
    const within = (at, n) => Math.max(0, Math.min(at, n - 1));
    return { row: within(steps[key][0], n_rows), column: within(steps[key][1], n_columns) };
  }

  function read(svg, { row, column }) {
    show(svg, row, column);
    svg.querySelector(".box").scrollIntoView({ block: "nearest", inline: "nearest" });
    placeTip();
    say(described(svg, row, column));
  }

  function keyed(svg, event) {
    if (event.altKey || event.metaKey) return;
    const { rows, columns } = gridOf(svg);
    const last = lastCell(svg);
    if (event.key === "Escape") svg.blur();
    else if (event.key === "Enter" || event.key === " ") {
      read(svg, last);
      choose(svg, last);
    } else {
      const next = moved(event.key, event.ctrlKey, last, rows.length, columns.length);
      if (!next) return;
      read(svg, next);
    }
    event.preventDefault();
  }

  function enhanceHeatMap(svg) {
    // arrow keys belong to the map while it has the focus; screen readers pass them on to an "application" only
    const keys = "Arrow keys move from cell to cell; Escape leaves.";
    set(svg, { role: "application", "aria-roledescription": "heat map", "aria-description": keys });
    svg.addEventListener("pointermove", (event) => followPointer(svg, event));
    svg.addEventListener("click", (event) => pressed(svg, event));
    svg.addEventListener("keydown", (event) => keyed(svg, event));
    // only for readers who came by keyboard: a pointer shows its own cell
    svg.addEventListener("focus", () => svg.matches(":focus-visible") && read(svg, lastCell(svg)));
    svg.addEventListener("blur", hide);
    // a finger that is lifted has left too, but its reader still wants to read
    svg.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hide());
  }

  // ---- copies of pictures that stand on their own ----

  const LOOKS = [
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "paint-order", "opacity",
    "font-size", "font-family", "font-style", "font-weight", "text-anchor", "dominant-baseline", "visibility",
  ];
  const ONLY_HERE = new Set(["class", "style", "role", "tabindex", "aria-roledescription", "aria-description"]);

  function standAlone(svg) {
    const copy = svg.cloneNode(true);
    const originals = [svg, ...svg.querySelectorAll("*")];
    const copies = [copy, ...copy.querySelectorAll("*")];
    originals.forEach((original, at) => writeLooks(original, copies[at], original === svg));
    copy.querySelectorAll("[visibility=hidden]").forEach((hidden) => hidden.remove());
    const title = document.createElementNS(SVG, "text");
    const range = svg.dataset.range ? ` (${svg.dataset.range})` : "";
    title.textContent = svg.getAttribute("aria-label") + range; // away from its page, nothing else says what it is
    const { x, y: top, width: own, height: below } = svg.viewBox.baseVal;
    const [y, height] = [top - TITLE_HEIGHT, below + TITLE_HEIGHT];
    const width = Math.max(own, TITLE_LETTER * title.textContent.length + 8);
    const { color, backgroundColor, fontFamily } = getComputedStyle(document.body);
    set(title, { x: x + 4, y: top - 7, fill: color, "font-family": fontFamily, "font-size": 13 });
    const paper = set(document.createElementNS(SVG, "rect"), { x, y, width, height, fill: backgroundColor });
    copy.prepend(paper, title);
    return set(copy, { width, height, viewBox: `${x} ${y} ${width} ${height}` });
  }

  function writeLooks(original, copy, outermost) {
    const own = getComputedStyle(original);
    const above = outermost ? null : getComputedStyle(original.parentElement);
    for (const name of LOOKS) {
      copy.removeAttribute(name);
      const now = own.getPropertyValue(name);
      // all but opacity comes down from the element above
      const before = name === "opacity" ? "1" : above?.getPropertyValue(name);
      if (now && now !== before) copy.setAttribute(name, now);
    }
    for (const { name } of [...copy.attributes]) {
      if (ONLY_HERE.has(name) || name.startsWith("data-")) copy.removeAttribute(name);
    }
  }

  async function loaded(address) {
    const picture = Object.assign(new Image(), { src: address });
    await picture.decode();
    return picture;
  }

  function drawn(picture, width, height, looks) {
    const canvas = element("canvas", { width: Math.ceil(width), height: Math.ceil(height) });
    const pen = Object.assign(canvas.getContext("2d"), looks);
    pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
    return canvas;
  }

  async function svgText(svg) {
    const copy = standAlone(svg);
    const image = copy.querySelector("image");
    if (image) {
      // one pixel per cell would be blurred by programs that smooth what they enlarge
      const looks = { imageSmoothingEnabled: false, filter: getComputedStyle(svg.querySelector("image")).filter };
      const [width, height] = ["width", "height"].map((side) => PNG_SCALE * Number(image.getAttribute(side)));
      image.setAttribute("href", drawn(await loaded(image.getAttribute("href")), width, height, looks).toDataURL());
    }
    return new XMLSerializer().serializeToString(copy);
  }

  async function pngFile(svg) {
    const picture = await loaded(`data:image/svg+xml;charset=utf-8,${encodeURIComponent(await svgText(svg))}`);
    const canvas = drawn(picture, PNG_SCALE * picture.width, PNG_SCALE * picture.height, {});
    const file = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (!file) throw new Error("the picture is too large");
    return file;
  }

  const FORMATS = {
    PNG: { make: pngFile, copyAs: "image/png", ending: ".png" },
    SVG: { make: svgText, copyAs: "text/plain", ending: ".svg" }, // a clipboard knows PNG and text
  };

  async function copy(svg, name, format) {
    const { make, copyAs, ending } = FORMATS[format];
    try {
      const making = make(svg).then((made) => new Blob([made], { type: copyAs }));
      try {
        // the promise itself is handed over: some browsers refuse what comes later than the press
        await navigator.clipboard.write([new ClipboardItem({ [copyAs]: making })]);
        say(`${name}: copied as ${format}.`, 3);
      } catch {
        // no clipboard here, or the reader does not let us
        save(await making, fileName(name) + ending);
      }
    } catch (error) {
      say(`${name}: could not be drawn as ${format}: ${error.message}.`, 6);
    }
  }

  function save(file, name) {
    const link = element("a", { href: URL.createObjectURL(file), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(`Saved as ${name}.`, 3);
  }

  function fileName(name) {
    return name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "picture";
  }

  function addCopyButtons(svg) {
    const name = svg.getAttribute("aria-label");
    const buttons = element("span", { class: "copy" });
    for (const format of Object.keys(FORMATS)) {
      const button = element("button", { type: "button", "aria-label": `Copy as ${format}: ${name}` }, format);
      button.addEventListener("click", () => copy(svg, name, format));
      buttons.append(button);
    }
    const caption = svg.closest("figure")?.querySelector("figcaption");
    if (caption && !caption.querySelector(".copy")) caption.append(" ", buttons);
    else (svg.closest(".wide") ?? svg).after(buttons);
  }

  // ---- the whole page, or a part that came later ----

  function enhance(root) {
    if (current && !current.svg.isConnected) hide(); // its part was replaced
    for (const svg of root.querySelectorAll('svg[role="img"]:not([data-enhanced])')) {
      svg.dataset.enhanced = "";
      addCopyButtons(svg);
      if (svg.dataset.values !== undefined) enhanceHeatMap(svg);
    }
  }

  document.body.append(tip, status);
  addEventListener("scroll", placeTip, { capture: true, passive: true });
  addEventListener("resize", placeTip);
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
  addEventListener("pointerdown", (event) => current && !current.svg.contains(event.target) && hide());
  enhance(document);
  // heads can be chosen where a script answers; parts that a live page puts in place later stay enabled
  for (const button of document.querySelectorAll("button.head")) button.disabled = true;
  window.infuserLook = Object.freeze({ enhance, value });
})();

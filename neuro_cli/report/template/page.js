"use strict";
// Puts the figures in their places, and lets the reader hide, smooth and sort. The figures are Bokeh's.
(() => {
  const { plots, colours } = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const figures = [];
  const measured = new Map(); // the columns of a source before they were smoothed

  const renderers = () => figures.flatMap((figure) => figure.renderers).filter((renderer) => renderer.tags.length);

  // the figures take the colours of the page, which CSS has chosen by the reader's preference
  function paint() {
    const style = getComputedStyle(document.documentElement);
    const [text, soft, line] = ["--text", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
    for (const figure of figures) {
      figure.setv({ background_fill_color: null, border_fill_color: null, outline_line_color: line });
      for (const axis of [...figure.below, ...figure.left])
        axis.setv({ axis_label_text_color: text, major_label_text_color: soft, axis_line_color: line,
          major_tick_line_color: line, minor_tick_line_color: null, axis_label_text_font_style: "normal" });
      for (const grid of figure.center) if ("grid_line_color" in grid) grid.setv({ grid_line_color: line, grid_line_alpha: 0.6 });
    }
    for (const renderer of renderers()) {
      const [, place] = renderer.tags;
      const colour = colours[place % colours.length][dark.matches ? 1 : 0];
      if ("line_color" in renderer.glyph) renderer.glyph.line_color = colour;
      if ("fill_color" in renderer.glyph) renderer.glyph.fill_color = colour;
    }
  }

  function show() {
    const hidden = new Set();
    for (const box of document.querySelectorAll("input[data-legend]:not(:checked)"))
      hidden.add(`${box.dataset.legend} ${box.dataset.item}`);
    const bands = document.getElementById("bands")?.checked ?? true;
    for (const renderer of renderers()) {
      const [legend, place, , role] = renderer.tags;
      renderer.visible = !hidden.has(`${legend} ${place}`) && (bands || role !== "band");
    }
  }

  // exponential moving average that begins without a bias towards zero
  function smoothed(values, weight) {
    let sum = 0, scale = 0;
    return Float32Array.from(values, (value) => {
      sum = weight * sum + (1 - weight) * value;
      scale = weight * scale + (1 - weight);
      return sum / scale;
    });
  }

  function smooth(weight) {
    for (const source of new Set(renderers().filter(({ tags }) => tags[2] === "smooth").map((renderer) => renderer.data_source))) {
      if (!measured.has(source)) measured.set(source, { ...source.data });
      const columns = { ...measured.get(source) };
      for (const name of ["y", "least", "most"])
        if (weight > 0 && name in columns) columns[name] = smoothed(columns[name], weight);
      source.data = columns;
    }
  }

  function sort(head, button) {
    const rows = [...head.closest("table").tBodies[0].rows];
    const down = head.getAttribute("aria-sort") === "ascending";
    const numeric = head.classList.contains("number");
    const key = (row) => row.cells[head.cellIndex].dataset.key;
    rows.sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (left === "" || right === "") return (left === "") - (right === ""); // what is missing stays last
      const order = numeric ? Number(left) - Number(right) : left.localeCompare(right, undefined, { numeric: true });
      return down ? -order : order;
    });
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    head.closest("table").tBodies[0].append(...rows);
    button.focus();
  }

  for (const button of document.querySelectorAll("thead button"))
    button.addEventListener("click", () => sort(button.closest("th"), button));
  for (const box of document.querySelectorAll("input[type=checkbox]")) box.addEventListener("change", show);
  const slider = document.getElementById("smoothing");
  slider?.addEventListener("input", () => {
    document.getElementById("smoothing-value").value = slider.value;
    smooth(Number(slider.value));
  });
  dark.addEventListener("change", paint);

  async function begin() {
    for (const plot of plots) {
      const known = new Set(Bokeh.documents);
      await Bokeh.embed.embed_item(plot);
      figures.push(...Bokeh.documents.filter((document) => !known.has(document)).flatMap((document) => document.roots()));
    }
    paint();
    if (slider && Number(slider.value) > 0) slider.dispatchEvent(new Event("input")); // a browser may keep it over a reload
    show();
    document.documentElement.dataset.ready = figures.length;
  }
  begin();
})();

// Python has drawn all plots; this hides series, steps through films, reads values and fills tables. Texts become text
// nodes, never HTML: they may come from the files of a stranger's run.
"use strict";
(() => {
  // ---------------------------------------------------------------- texts and numbers

  const SCRIPT = /([_^])\{([^{}]*)\}/g;

  function html(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  /** Nodes of a text, _{…} and ^{…} as sub- and superscripts. */
  function withScripts(text) {
    const parts = [];
    let end = 0;
    for (const found of text.matchAll(SCRIPT)) {
      parts.push(text.slice(end, found.index), html(found[1] === "_" ? "sub" : "sup", {}, found[2]));
      end = found.index + found[0].length;
    }
    return [...parts, text.slice(end)];
  }

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

  function shown(value, digits = 5) {
    if (!isNumber(value)) return "–";
    const size = Math.abs(value);
    if (size === 0 || (size < 1e6 && size >= 1e-3)) return String(Number(value.toPrecision(digits))).replace("-", "−");
    const [mantissa, exponent] = value.toExponential(Math.min(digits, 4) - 1).split("e");
    return `${Number(mantissa)}·10^{${Number(exponent)}}`.replaceAll("-", "−");
  }

  // ---------------------------------------------------------------- a pair of axes

  /** A heat map as a panel whose series are its rows. */
  const asPanel = ({ values }) => ({
    x_label: "column",
    y_label: "row",
    series: (values[0] ?? []).map((_, row) => ({
      name: "",
      x: values.map((_, column) => column),
      y: values.map(() => row),
      notes: values.map((column) => shown(column[row], 4)),
    })),
  });

  class Plot {
    /** `panels` are those at one place in all frames; a chart has one frame. */
    constructor(node, panels, hidden) {
      this.panels = panels;
      this.hidden = hidden;
      this.node = node;
      this.plot = node.querySelector(".plot");
      this.svg = this.plot.querySelector("svg");
      this.readout = node.querySelector(".readout");
      this.box = this.svg.dataset.box.split(" ").map(Number);
      this.ring = document.createElementNS(this.svg.namespaceURI, "circle");
      this.ring.setAttribute("class", "cursor");
      this.ring.setAttribute("r", 6);
      this.cursor = null;
      this.plot.addEventListener("keydown", (event) => this.onKey(event));
      this.plot.addEventListener("focus", () => this.plot.matches(":focus-visible") && this.moveTo(this.points()[0]));
      this.plot.addEventListener("blur", () => this.moveTo(null));
      this.plot.addEventListener("pointermove", (event) => this.point(event));
      this.plot.addEventListener("pointerdown", (event) => this.point(event));
      this.plot.addEventListener("pointerleave", () => document.activeElement === this.plot || this.moveTo(null));
    }

    show(frame) {
      this.panel = this.panels[frame];
      this.node.hidden = !this.panel;
      for (const part of this.svg.querySelectorAll("[data-frame]")) {
        part.setAttribute("display", Number(part.dataset.frame) === frame ? "inline" : "none");
      }
      this.moveTo(null);
    }

    /** From a number to the units of the drawing, along x or y; null beyond the axis. */
    at(value, axis) {
      const [low, high, isLog] = this.svg.dataset[axis].split(" ").map(Number);
      const scale = isLog ? Math.log : (number) => number;
      const share = (scale(value) - scale(low)) / (scale(high) - scale(low));
      if (!isNumber(value) || !(share >= -0.01 && share <= 1.01)) return null;
      const [left, top, width, height] = this.box;
      return axis === "x" ? left + share * width : top + (1 - share) * height;
    }

    /** Points in view of all series that are shown. */
    points() {
      const found = [];
      for (const series of this.panel.series.filter((series) => !this.hidden.has(series.name))) {
        series.y.forEach((value, index) => {
          const [x, y] = [this.at(series.x[index], "x"), this.at(value, "y")];
          if (x !== null && y !== null) found.push({ series, index, x, y });
        });
      }
      return found;
    }

    point(event) {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      const away = ({ x, y, series }) => Math.hypot(x - place.x, series.kind === "bars" ? 0 : y - place.y);
      this.moveTo(this.points().reduce((best, one) => (!best || away(one) < away(best) ? one : best), null));
    }

    /** Mark a point and say its values; a screen reader does not read the same again. */
    moveTo(point) {
      if (point && this.cursor?.series === point.series && this.cursor.index === point.index) return;
      this.cursor = point ?? null;
      if (!point) {
        this.ring.remove();
        this.readout.replaceChildren();
        return;
      }
      const { series, index } = point;
      this.ring.setAttribute("cx", point.x);
      this.ring.setAttribute("cy", point.y);
      this.svg.append(this.ring);
      const { value, error, upper, note } = this.cells(series, index);
      const values = this.panel.rows?.length
        ? `${this.panel.rows[series.y[index]]}; ${this.panel.x_label}: ${value}${error && ` ± ${error}`}`
        : `${this.panel.x_label}: ${shown(series.x[index])}; ${this.panel.y_label}: ${value}${error && ` ± ${error}`}`;
      this.readout.replaceChildren(
        ...(series.name ? [html("strong", {}, ...withScripts(series.name)), " "] : []),
        ...withScripts(values + (upper && ` to ${upper}`) + (note && ` — ${note}`)),
      );
      // The room of a long text stays, or what stands below would jump away from a pointer about to click.
      this.readout.style.minHeight = `${this.readout.offsetHeight}px`;
    }

    /** What is to be said of a point; errors and limits are those of x where rows have names. */
    cells(series, index) {
      const isLimit = series.is_limit?.[index];
      const error = series.error?.[index];
      return {
        value: (isLimit ? "> " : "") + shown((this.panel.rows?.length ? series.x : series.y)[index]),
        error: isNumber(error) && error > 0 && !isLimit ? shown(error, 2) : "",
        upper: isNumber(series.upper?.[index]) ? shown(series.upper[index]) : "",
        note: series.notes?.[index] ?? "",
      };
    }

    onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      const points = this.points();
      const alike = points.filter(({ series }) => series === this.cursor?.series).sort((a, b) => a.x - b.x);
      const place = alike.findIndex(({ index }) => index === this.cursor?.index);
      const names = [...new Set(points.map(({ series }) => series))];
      /** the nearest point of another series */
      const across = (by) => {
        const next = names[(names.indexOf(this.cursor?.series) + by + names.length) % names.length];
        const away = ({ x }) => Math.abs(x - (this.cursor?.x ?? 0));
        return points.filter(({ series }) => series === next).sort((a, b) => away(a) - away(b))[0];
      };
      const isMap = this.panel.y_label === "row" && !this.panel.rows;
      const actions = {
        ArrowLeft: () => alike[Math.max(0, place - 1)],
        ArrowRight: () => alike[Math.min(alike.length - 1, place + 1)],
        ArrowUp: () => across(isMap ? 1 : -1),
        ArrowDown: () => across(isMap ? -1 : 1),
        Home: () => alike[0],
        End: () => alike.at(-1),
        Escape: () => null,
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      const next = actions[event.key]();
      this.moveTo(next === undefined ? points[0] : next);
    }

    table() {
      const { panel } = this;
      const rows = panel.series.flatMap((series) =>
        series.y.map((_, index) => {
          const { value, error, upper, note } = this.cells(series, index);
          const first = panel.rows?.length ? panel.rows[series.y[index]] : shown(series.x[index], 6);
          return [series.name, first, value, error, upper, note];
        }),
      );
      const [first, second] = panel.rows?.length ? ["row", panel.x_label] : [panel.x_label, panel.y_label];
      const header = ["series", first, second, "±", "up to", "note"];
      const used = header.map((_, column) => column === 1 || column === 2 || rows.some((row) => row[column]));
      const cells = (row, make) => row.filter((_, column) => used[column]).map(make);
      const head = cells(header, (cell) => html("th", { scope: "col" }, ...withScripts(cell)));
      const body = rows.slice(0, MOST_ROWS).map((row) =>
        html("tr", {}, ...cells(row, (cell, column) => html(column ? "td" : "th", { scope: column ? null : "row" }, ...withScripts(cell)))),
      );
      const name = panel.title || panel.y_label;
      const remark = rows.length > MOST_ROWS ? ` (the first ${MOST_ROWS} of ${rows.length} rows)` : "";
      const table = html(
        "table",
        {},
        html("caption", {}, ...withScripts(name), remark),
        html("thead", {}, html("tr", {}, ...head)),
        html("tbody", {}, ...body),
      );
      return html("div", { class: "table", role: "region", tabindex: 0, "aria-label": "Data" }, table);
    }
  }

  const MOST_ROWS = 2000;
  const INTERVAL = 700;

  // ---------------------------------------------------------------- charts and films

  function playFilm(controls, frames, first, show) {
    const [previous, play, next] = controls.querySelectorAll("button");
    const slider = controls.querySelector("input");
    const last = frames.length - 1;
    let timer = null;
    const pause = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
    };
    const go = (frame) => {
      slider.value = Math.min(last, Math.max(0, frame));
      const current = Number(slider.value);
      slider.setAttribute("aria-valuetext", frames[current].label.replace(SCRIPT, "$1$2"));
      controls.querySelector("output").replaceChildren(...withScripts(frames[current].label));
      show(current);
      if (current === last && timer !== null) pause();
    };
    const on = (node, kind, action) => node.addEventListener(kind, () => (pause(), action()));
    on(previous, "click", () => go(Number(slider.value) - 1));
    on(next, "click", () => go(Number(slider.value) + 1));
    on(slider, "input", () => go(Number(slider.value)));
    play.addEventListener("click", () => {
      if (timer !== null) return pause();
      if (Number(slider.value) === last) go(0);
      timer = setInterval(() => go(Number(slider.value) + 1), INTERVAL);
      play.textContent = "Pause";
    });
    // Who wants no motion steps from frame to frame.
    play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
    go(first);
  }

  function bringToLife(figure) {
    const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const frames = data.frames ?? [{ panels: data.panels, maps: [] }];
    const hidden = new Set();
    const most = Math.max(0, ...frames.map((frame) => frame.panels.length));
    const plots = [...figure.querySelectorAll(".panel")].map((node, place) => {
      const at = (frame) => (place < most ? frame.panels[place] : frame.maps[place - most] && asPanel(frame.maps[place - most]));
      return new Plot(node, frames.map(at), hidden);
    });

    const details = figure.querySelector("details");
    const fill = () => {
      const tables = details.open ? plots.filter((plot) => plot.panel).map((plot) => plot.table()) : [];
      details.querySelector("div").replaceChildren(...tables);
    };
    details.addEventListener("toggle", fill);
    const show = (frame) => {
      for (const plot of plots) plot.show(frame);
      fill();
    };

    for (const button of figure.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const name = button.dataset.name;
        const isShown = hidden.delete(name);
        if (!isShown) hidden.add(name);
        button.setAttribute("aria-pressed", isShown);
        for (const part of figure.querySelectorAll(`.plot [data-series="${button.dataset.series}"]`)) {
          part.classList.toggle("off", !isShown);
        }
        for (const plot of plots) plot.moveTo(null);
      });
    }
    const controls = figure.querySelector(".film-controls");
    if (controls) playFilm(controls, frames, data.first, show);
    else show(data.first ?? 0);
    figure.classList.add("live");
  }

  function addCopyButton(figure) {
    const code = figure.querySelector("code");
    const button = html("button", { type: "button", class: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        // Not every browser lets a page from disk write there: the reader copies what is selected.
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    figure.append(button);
  }

  document.querySelectorAll("figure.chart, figure.film").forEach((figure) => {
    try {
      bringToLife(figure);
    } catch (error) {
      console.error(error); // what was drawn stays
    }
  });
  document.querySelectorAll("figure.code").forEach(addCopyButton);
})();

// Replaces the pictures of charts and films by plots to point at, zoom and step through. Texts become text nodes,
// never HTML: they may come from the files of a stranger's run.
"use strict";
(() => {
  // ---------------------------------------------------------------- elements and texts

  const SVG = "http://www.w3.org/2000/svg";
  const SCRIPT = /([_^])\{([^{}]*)\}/g;

  function build(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") node.addEventListener(name, value);
      else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }
  const html = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);
  const svg = (name, attributes = {}, ...children) => build(document.createElementNS(SVG, name), attributes, children);

  /** Nodes of a text, _{…} and ^{…} as sub- and superscripts made by `script`. */
  function withScripts(text, script = (sign, content) => html(sign === "_" ? "sub" : "sup", {}, content)) {
    const parts = [];
    let end = 0;
    for (const found of text.matchAll(SCRIPT)) {
      parts.push(text.slice(end, found.index), script(found[1], found[2]));
      end = found.index + found[0].length;
    }
    return [...parts, text.slice(end)];
  }
  const withoutScripts = (text) => text.replace(SCRIPT, "$1$2");
  /** About as many pixels as the label of a tick takes. */
  const widthOf = (label) => 7 * label.replace(/[_^{}]/g, "").length;
  const raised = (sign, content) => svg("tspan", { dy: sign === "_" ? 3 : -4, "font-size": "80%" }, content);

  // ---------------------------------------------------------------- numbers

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const withMinus = (text) => text.replaceAll("-", "−");
  /** Thousands apart, by a narrow space. */
  const grouped = (text) => text.replace(/^\D?\d{5,}/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, "\u202f"));

  function shown(value, digits = 5) {
    if (!isNumber(value)) return "–";
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e7) return grouped(withMinus(String(value)));
    if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
      const [mantissa, exponent] = value.toExponential(Math.min(digits, 4) - 1).split("e");
      return withMinus(`${Number(mantissa)}×10^{${Number(exponent)}}`);
    }
    return grouped(withMinus(String(Number(value.toPrecision(digits)))));
  }

  function linearTicks(low, high, count) {
    const raw = (high - low) / Math.max(count, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) * power;
    const values = [];
    for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) values.push(index * step);
    const largest = Math.max(...values.map(Math.abs), step);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    if (largest < 1e6 && decimals <= 4) {
      return values.map((value) => ({ value, label: grouped(withMinus((value + 0).toFixed(decimals))) }));
    }
    const exponent = Math.floor(Math.log10(largest) + 1e-9);
    const digits = Math.min(15, Math.max(0, exponent - Math.floor(Math.log10(step) + 1e-9)));
    const scientific = (value) => withMinus(`${(value / 10 ** exponent).toFixed(digits)}×10^{${exponent}}`);
    return values.map((value) => ({ value, label: value === 0 ? "0" : scientific(value) }));
  }

  function logTicks(low, high, count) {
    const decades = Math.log10(high / low);
    if (decades < 0.7) return linearTicks(low, high, 0.6 * count).filter((tick) => tick.value > 0);
    const stride = Math.max(1, Math.ceil(decades / Math.max(count, 1)));
    const labelled = decades < 2 || 3 * decades <= count ? [1, 2, 5] : [1];
    const areModest = low >= 0.9e-3 && high <= 2e5;
    const ticks = [];
    for (let exponent = Math.floor(Math.log10(low)); exponent <= Math.ceil(Math.log10(high)); exponent++) {
      for (const factor of stride === 1 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [1]) {
        const value = Number(`${factor}e${exponent}`);
        if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
        const hasLabel = labelled.includes(factor) && exponent % stride === 0;
        const text = areModest ? grouped(String(value)) : `${factor === 1 ? "" : `${factor}×`}10^{${withMinus(String(exponent))}}`;
        ticks.push({ value, label: hasLabel ? text : "" });
      }
    }
    return ticks;
  }

  /** Between numbers and pixels. */
  function makeScale([low, high], [start, end], isLog) {
    const forward = isLog ? Math.log : (value) => value;
    const backward = isLog ? Math.exp : (value) => value;
    const slope = (end - start) / (forward(high) - forward(low));
    return {
      at: (value) => start + (forward(value) - forward(low)) * slope,
      /** the value at a pixel */
      value: (pixel) => backward(forward(low) + (pixel - start) / slope),
      has: (value) => isNumber(value) && (!isLog || value > 0),
      ticks: (count) => (isLog ? logTicks : linearTicks)(low, high, count),
      /** where bars begin */
      zero: isLog ? start : start - low * slope,
    };
  }

  function padded([low, high], share, isLog) {
    if (isLog) return padded([Math.log(low), Math.log(high)], share, false).map(Math.exp);
    return [low - share * (high - low), high + share * (high - low)];
  }

  /** Limits of an axis that hold the panels of all frames, so that frames can be compared. */
  function limits(panels, axis) {
    const isLog = panels.some((panel) => panel[`${axis}_log`]);
    const fixed = panels.map((panel) => panel[`${axis}_limits`]).filter((pair) => pair && (!isLog || pair[0] > 0));
    if (fixed.length && fixed.every((pair) => pair[0] < pair[1])) {
      return [Math.min(...fixed.map((pair) => pair[0])), Math.max(...fixed.map((pair) => pair[1]))];
    }
    let low = Infinity;
    let high = -Infinity;
    const include = (value) => {
      if (!isNumber(value) || (isLog && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    let startsAtZero = false;
    for (const series of panels.flatMap((panel) => panel.series)) {
      const half = series.kind === "bars" ? spacing(series) / 2 : 0;
      series.y.forEach((y, index) => {
        const x = series.x[index];
        if (!isNumber(y) || !isNumber(x)) return;
        if (axis === "x") {
          include(x - half);
          include(x + half);
          return;
        }
        const error = series.error?.[index] ?? 0;
        include(y - error);
        include(y);
        include(y + error);
        include(series.upper?.[index]);
        if (series.kind === "bars") include(0);
      });
      startsAtZero ||= axis === "y" && series.kind === "bars";
    }
    if (low > high) return isLog ? [1, 10] : [0, 1];
    if (low === high) {
      if (isLog) return [low / 2, high * 2];
      const half = Math.abs(low) / 2 || 0.5;
      return [low - half, high + half];
    }
    const around = padded([low, high], axis === "x" ? 0.03 : 0.06, isLog);
    const hasArrows = axis === "y" && panels.some((panel) => panel.series.some((series) => series.is_limit?.includes(true)));
    const top = hasArrows ? padded([low, high], 0.14, isLog)[1] : around[1];
    return [startsAtZero && low === 0 ? 0 : around[0], top];
  }

  /** Least distance of neighbours: the room of a bar. */
  function spacing(series) {
    const sorted = series.x.filter(isNumber).sort((a, b) => a - b);
    const least = sorted.reduce((gap, x, index) => {
      const next = x - sorted[index - 1];
      return next > 0 && next < gap ? next : gap;
    }, Infinity);
    return least < Infinity ? least : 1;
  }

  // ---------------------------------------------------------------- drawing of a series

  const RADIUS = 3.6;
  const MARKERS = {
    o: (x, y, r) => `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0z`,
    s: (x, y, r) => `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    "^": (x, y, r) => `M${x},${y - 1.2 * r}l${1.15 * r},${2.1 * r}h${-2.3 * r}z`,
    v: (x, y, r) => `M${x},${y + 1.2 * r}l${1.15 * r},${-2.1 * r}h${-2.3 * r}z`,
    D: (x, y, r) => `M${x},${y - 1.3 * r}l${1.3 * r},${1.3 * r}l${-1.3 * r},${1.3 * r}l${-1.3 * r},${-1.3 * r}z`,
    x: (x, y, r) => `M${x - r},${y - r}l${2 * r},${2 * r}m0,${-2 * r}l${-2 * r},${2 * r}`,
  };
  const round = (pixel) => Math.round(pixel * 100) / 100;

  /** Black is the colour of text, whatever that is; other colours become lighter on dark ground. */
  function colourOf(series) {
    if (!/^#[0-9a-f]{6}$/i.test(series.colour) || series.colour === "#000000") return "var(--text)";
    return `color-mix(in oklab, white var(--lift), ${series.colour})`;
  }

  /** Where points lie in pixels; null where there is nothing to draw. */
  const positions = (series, x, y) =>
    series.y.map((value, index) =>
      x.has(series.x[index]) && y.has(value) ? [round(x.at(series.x[index])), round(y.at(value))] : null,
    );

  function linePath(points) {
    let isDown = false;
    let path = "";
    for (const point of points) {
      if (point) path += `${isDown ? "L" : "M"}${point[0]},${point[1]}`;
      isDown = point !== null;
    }
    return path;
  }

  /** Steps change halfway between points, so that every point lies on the line. */
  function stepPath(points) {
    let path = "";
    points.forEach((point, index) => {
      const before = points[index - 1];
      if (!point) return;
      path += before ? `H${round((before[0] + point[0]) / 2)}V${point[1]}` : `M${point[0]},${point[1]}`;
      if (!points[index + 1]) path += `H${point[0]}`;
    });
    return path;
  }

  const stroke = (path, series) =>
    svg("path", { class: "stroke", d: path, "stroke-dasharray": series.dashed ? "6 4" : null });

  const DRAW = {
    line: (series, points) => [stroke(linePath(points), series)],
    steps: (series, points) => [stroke(stepPath(points), series)],

    points(series, points, { y }) {
      const draw = MARKERS[series.marker] ?? MARKERS.o;
      let marks = "";
      let bars = "";
      points.forEach((point, index) => {
        if (!point) return;
        const [left, top] = point;
        marks += draw(left, top, RADIUS);
        const error = series.error?.[index];
        if (series.is_limit?.[index]) {
          bars += `M${left},${top}v-22m-4,6l4,-6l4,6`;
        } else if (isNumber(error)) {
          const value = series.y[index];
          const upper = round(y.at(value + error));
          const lower = y.has(value - error) ? round(y.at(value - error)) : 1e4;
          bars += `M${left},${upper}V${lower}M${left - 3},${upper}h6M${left - 3},${lower}h6`;
        }
      });
      return [
        ...(series.joined ? [stroke(linePath(points), series)] : []),
        svg("path", { class: "error", d: bars }),
        svg("path", { class: series.marker === "x" ? "stroke" : "mark", d: marks }),
      ];
    },

    bars(series, points, { x, y, place, places }) {
      const room = 0.84 * spacing(series);
      const path = points.map((point, index) => {
        if (!point) return "";
        const left = x.at(series.x[index] - room / 2 + (room * place) / places);
        const right = x.at(series.x[index] - room / 2 + (room * (place + 1)) / places);
        return `M${round(left)},${round(y.zero)}V${point[1]}H${round(right)}V${round(y.zero)}z`;
      });
      return [svg("path", { class: "bar", d: path.join("") })];
    },

    band(series, points, { x, y }) {
      const pieces = [[]];
      points.forEach((point, index) => {
        const upper = series.upper?.[index];
        // On a logarithmic axis a band may reach down to zero: below everything that is drawn.
        const canReach = x.has(series.x[index]) && isNumber(series.y[index]) && y.has(upper);
        if (canReach) pieces.at(-1).push([round(x.at(series.x[index])), point ? point[1] : 1e4, round(y.at(upper))]);
        else pieces.push([]);
      });
      const path = pieces.filter((piece) => piece.length).map((piece) => {
        const there = piece.map(([left, lower]) => `${left},${lower}`).join("L");
        const back = piece.reverse().map(([left, , upper]) => `${left},${upper}`).join("L");
        return `M${there}L${back}z`;
      });
      return [svg("path", { class: "band", d: path.join("") })];
    },
  };

  function swatch(all) {
    const picture = svg("svg", { class: "swatch", width: 26, height: 14, "aria-hidden": "true" });
    const scale = { at: () => 0, has: () => true, zero: 14 };
    for (const kind of new Set(all.map((series) => series.kind))) {
      const series = { ...all.find((one) => one.kind === kind), error: null, is_limit: null };
      const ends = [[0, 7], [26, 7]];
      const group = svg("g");
      if (kind === "bars" || kind === "band") {
        group.append(svg("path", { class: kind === "bars" ? "bar" : "band", d: "M2,1h22v12h-22z" }));
      } else if (kind === "points") {
        if (series.joined) group.append(stroke(linePath(ends), series));
        group.append(...DRAW.points({ ...series, joined: false, y: [0] }, [[13, 7]], { y: scale }));
      } else group.append(stroke(linePath(ends), series));
      group.style.color = colourOf(series);
      picture.append(group);
    }
    return picture;
  }

  // ---------------------------------------------------------------- a pair of axes

  class PanelView {
    /** `panels` are those at one place in all frames; a chart has one frame. */
    constructor(panels, hidden, name) {
      this.panels = panels;
      this.hidden = hidden;
      this.panel = panels[0];
      const present = panels.filter(Boolean);
      this.full = { x: limits(present, "x"), y: limits(present, "y") };
      this.view = { ...this.full };
      this.cursor = null;

      const button = (sign, label, action) =>
        html("button", { type: "button", "aria-label": label, title: label, click: action }, sign);
      this.heading = html("div", { class: "labels" });
      this.plot = html("div", {
        class: "plot",
        tabindex: 0,
        role: "application",
        keydown: (event) => this.onKey(event),
        focus: () => this.cursor ?? (this.plot.matches(":focus-visible") && this.moveTo(this.firstPoint())),
        blur: () => this.moveTo(null),
      });
      this.xLabel = html("p", { class: "x-label" });
      this.readout = html("p", { class: "readout", "aria-live": "polite" });
      this.node = html(
        "div",
        { class: "panel" },
        html(
          "div",
          { class: "panel-head" },
          this.heading,
          html(
            "div",
            { class: "zoom", role: "group", "aria-label": `Zoom of ${withoutScripts(this.panel?.title || name)}` },
            button("+", "Zoom in", () => this.zoom(0.5)),
            button("−", "Zoom out", () => this.zoom(2)),
            button("Reset", "Reset zoom", () => this.reset()),
          ),
        ),
        this.plot,
        this.xLabel,
        this.readout,
      );
      this.listenToPointer();
      this.width = 0;
      new ResizeObserver(() => this.plot.clientWidth !== this.width && this.draw()).observe(this.plot);
    }

    show(frame) {
      this.panel = this.panels[frame];
      this.node.hidden = !this.panel;
      this.cursor = null;
      this.draw();
    }

    visible() {
      return this.panel.series.filter((series) => !this.hidden.has(series.name));
    }

    draw() {
      this.width = this.plot.clientWidth;
      if (!this.panel || !this.width) return;
      const { panel, width } = this;
      this.readout.style.minHeight = "";
      const height = Math.round(Math.min(330, Math.max(210, width * 0.64)));
      this.heading.replaceChildren(
        ...(panel.title ? [html("h4", {}, ...withScripts(panel.title))] : []),
        html("p", { class: "y-label" }, ...withScripts(panel.y_label)),
      );
      this.xLabel.replaceChildren(...withScripts(panel.x_label));

      const xTickCount = (room) => room / (panel.x_log ? 50 : 70);
      const top = 8;
      const bottom = height - 24;
      const yTicks = makeScale(this.view.y, [bottom, top], panel.y_log).ticks((bottom - top) / (panel.y_log ? 28 : 44));
      const left = Math.ceil(14 + Math.max(7, ...yTicks.map((tick) => widthOf(tick.label))));
      // Room for half of a label at the end of the axis.
      const lastLabel = makeScale(this.view.x, [0, width - left], panel.x_log).ticks(xTickCount(width - left)).at(-1);
      const right = Math.floor(width - Math.max(12, widthOf(lastLabel?.label ?? "") / 2 + 2));
      this.area = { left, top, width: right - left, height: bottom - top };
      this.x = makeScale(this.view.x, [0, this.area.width], panel.x_log);
      this.y = makeScale(this.view.y, [this.area.height, 0], panel.y_log);

      const axes = svg("g", { class: "axes" });
      const grid = svg("g", { class: "grid" });
      for (const { value, label } of yTicks) {
        const y = round(top + this.y.at(value));
        axes.append(svg("path", { d: `M${left},${y}h${label ? -5 : -3}` }));
        if (!label) continue;
        grid.append(svg("path", { d: `M${left},${y}H${right}` }));
        axes.append(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, ...withScripts(label, raised)));
      }
      let free = -Infinity;
      for (const { value, label } of this.x.ticks(xTickCount(this.area.width))) {
        const x = round(left + this.x.at(value));
        axes.append(svg("path", { d: `M${x},${bottom}v${label ? 5 : 3}` }));
        const half = widthOf(label) / 2;
        if (!label || x - half < free) continue;
        free = x + half + 6;
        axes.append(svg("text", { x, y: bottom + 19, "text-anchor": "middle" }, ...withScripts(label, raised)));
      }
      axes.append(svg("path", { class: "frame", d: `M${left},${top}V${bottom}H${right}` }));

      // A nested svg cuts off what lies outside of the axes.
      const inside = svg("svg", { role: "none", x: left, y: top, width: this.area.width, height: this.area.height });
      this.points = new Map();
      const bars = this.visible().filter((series) => series.kind === "bars");
      for (const series of this.visible()) {
        const group = svg("g", { class: "series", "data-series": series.name });
        group.style.color = colourOf(series);
        const room = { x: this.x, y: this.y, place: bars.indexOf(series), places: bars.length };
        const points = positions(series, this.x, this.y);
        this.points.set(series, points);
        group.append(...(DRAW[series.kind] ?? DRAW.line)(series, points, room));
        inside.append(group);
      }
      this.overlay = svg("g", { class: "overlay" });
      inside.append(this.overlay);

      const label = this.description();
      this.picture = svg("svg", { width, height, role: "img", "aria-label": label }, grid, inside, axes);
      this.plot.setAttribute("aria-label", `${label} Arrow keys read values, plus and minus zoom, 0 resets.`);
      this.plot.replaceChildren(this.picture);
      this.node.classList.toggle("zoomed", this.isZoomed());
      this.moveTo(this.cursor);
    }

    description() {
      const { panel, view } = this;
      const range = (pair) => pair.map((value) => withoutScripts(shown(value, 3))).join(" to ");
      const names = [...new Set(this.visible().map((series) => withoutScripts(series.name)))].filter(Boolean);
      return (
        `${panel.title ? `${withoutScripts(panel.title)}: ` : ""}${withoutScripts(panel.y_label)}, ${range(view.y)}, ` +
        `against ${withoutScripts(panel.x_label)}, ${range(view.x)}.` + (names.length ? ` Shown: ${names.join(", ")}.` : "")
      );
    }

    // -------------------------------------------------------------- reading of values

    /** Points in view, in the order of x. */
    pointsOf(series) {
      return this.points
        .get(series)
        .map((point, index) => ({ series, index, point }))
        .filter(({ point }) => point && this.isInside(point))
        .sort((a, b) => a.point[0] - b.point[0]);
    }

    isInside([left, top]) {
      return left >= -1 && top >= -1 && left <= this.area.width + 1 && top <= this.area.height + 1;
    }

    firstPoint() {
      return this.visible().flatMap((series) => this.pointsOf(series).slice(0, 1))[0] ?? null;
    }

    nearest(left, top) {
      let best = null;
      let least = Infinity;
      for (const series of this.visible()) {
        const points = this.points.get(series);
        for (let index = 0; index < points.length; index++) {
          if (!points[index] || !this.isInside(points[index])) continue;
          // Anywhere along a bar points at it.
          const down = series.kind === "bars" ? 0 : points[index][1] - top;
          const distance = (points[index][0] - left) ** 2 + down ** 2;
          if (distance < least) [least, best] = [distance, { series, index, point: points[index] }];
        }
      }
      return best;
    }

    moveToNearest([left, top]) {
      const found = this.nearest(left, top);
      // A screen reader would read the same again.
      if (found?.series !== this.cursor?.series || found?.index !== this.cursor?.index) this.moveTo(found);
    }

    /** Mark a point and say its values. */
    moveTo(cursor) {
      const isKnown = cursor && this.panel.series.includes(cursor.series) && !this.hidden.has(cursor.series.name);
      this.cursor = isKnown ? cursor : null;
      this.overlay?.querySelector(".cursor")?.remove();
      if (!this.cursor) {
        this.readout.replaceChildren();
        return;
      }
      const { series, index } = this.cursor;
      const point = [this.x.at(series.x[index]), this.y.at(series.y[index])].map(round);
      this.cursor.point = point;
      this.overlay.append(svg("circle", { class: "cursor", cx: point[0], cy: point[1], r: 7 }));
      const error = series.error?.[index];
      const upper = series.kind === "band" ? series.upper?.[index] : null;
      const value =
        (series.is_limit?.[index] ? "> " : "") + shown(series.y[index]) +
        (isNumber(error) && !series.is_limit?.[index] ? ` ± ${shown(error, 2)}` : "") +
        (isNumber(upper) ? ` to ${shown(upper)}` : "");
      const note = series.notes?.[index];
      this.readout.replaceChildren(
        ...(series.name ? [html("strong", {}, ...withScripts(series.name)), " "] : []),
        ...withScripts(`${this.panel.x_label}: ${shown(series.x[index])}; ${this.panel.y_label}: ${value}`),
        ...(note ? [" — ", ...withScripts(note)] : []),
      );
      // The room of a long text stays, or what stands below would jump away from a pointer about to click.
      this.readout.style.minHeight = `${this.readout.offsetHeight}px`;
    }

    onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      const direction = directions[event.key];
      const actions = {
        "+": () => this.zoom(0.5),
        "=": () => this.zoom(0.5),
        "-": () => this.zoom(2),
        "−": () => this.zoom(2),
        0: () => this.reset(),
        Escape: () => this.moveTo(null),
        Home: () => this.cursor && this.moveTo(this.pointsOf(this.cursor.series)[0]),
        End: () => this.cursor && this.moveTo(this.pointsOf(this.cursor.series).at(-1)),
      };
      if (!direction && !actions[event.key]) return;
      event.preventDefault();
      if (!direction) actions[event.key]();
      else if (event.shiftKey) this.pan(...direction);
      else this.step(...direction);
    }

    /** To the next point along x, or to the next series. */
    step(across, up) {
      if (!this.cursor) {
        this.moveTo(this.firstPoint());
        return;
      }
      const { series, index, point } = this.cursor;
      if (across) {
        const points = this.pointsOf(series);
        const place = points.findIndex((other) => other.index === index);
        this.moveTo(points[Math.min(points.length - 1, Math.max(0, place + across))] ?? this.cursor);
        return;
      }
      const all = this.visible().filter((other) => this.pointsOf(other).length);
      const next = all[(all.indexOf(series) - up + all.length) % all.length];
      const away = (other) => Math.abs(other.point[0] - point[0]);
      if (next) this.moveTo(this.pointsOf(next).reduce((best, other) => (away(other) < away(best) ? other : best)));
    }

    // -------------------------------------------------------------- zoom

    isZoomed() {
      return ["x", "y"].some((axis) => this.view[axis].some((value, end) => value !== this.full[axis][end]));
    }

    reset() {
      this.view = { ...this.full };
      this.draw();
    }

    /** To an area in pixels. */
    zoomTo(left, top, right, bottom) {
      this.view = { x: [this.x.value(left), this.x.value(right)], y: [this.y.value(bottom), this.y.value(top)] };
      this.draw();
    }

    /** Around the marked point or the middle; never beyond the full view. */
    zoom(factor) {
      const { width, height } = this.area;
      const [left, top] = this.cursor?.point ?? [width / 2, height / 2];
      const ends = (at, size) => [at - at * factor, at + (size - at) * factor];
      const [x, y] = [ends(left, width), ends(top, height)];
      const wanted = { x: x.map(this.x.value), y: [this.y.value(y[1]), this.y.value(y[0])] };
      const within = (axis) => [
        Math.max(wanted[axis][0], this.full[axis][0]),
        Math.min(wanted[axis][1], this.full[axis][1]),
      ];
      this.view = factor > 1 ? { x: within("x"), y: within("y") } : wanted;
      this.draw();
    }

    pan(across, up) {
      const [x, y] = [0.2 * across * this.area.width, -0.2 * up * this.area.height];
      this.zoomTo(x, y, x + this.area.width, y + this.area.height);
    }

    listenToPointer() {
      let start = null;
      const place = (event) => {
        const box = this.picture.getBoundingClientRect();
        const within = (value, size) => Math.min(size, Math.max(0, value));
        return [
          within(event.clientX - box.left - this.area.left, this.area.width),
          within(event.clientY - box.top - this.area.top, this.area.height),
        ];
      };
      // A drag in one direction only leaves the other axis as it is.
      const chosen = (from, to) => {
        const sides = [0, 1].map((axis) => [Math.min(from[axis], to[axis]), Math.max(from[axis], to[axis])]);
        const isWide = sides.map(([low, high]) => high - low > 8);
        if (!isWide[0] && !isWide[1]) return null;
        if (!isWide[0]) sides[0] = [0, this.area.width];
        if (!isWide[1]) sides[1] = [0, this.area.height];
        return [sides[0][0], sides[1][0], sides[0][1], sides[1][1]];
      };
      const clear = () => {
        start = null;
        this.overlay?.querySelector(".selection")?.remove();
      };
      this.plot.addEventListener("pointerdown", (event) => {
        // A finger scrolls the page; buttons zoom there.
        if (!this.area || event.button !== 0 || event.pointerType === "touch") return;
        start = place(event);
        this.plot.setPointerCapture(event.pointerId);
      });
      this.plot.addEventListener("pointermove", (event) => {
        if (!this.area) return;
        const here = place(event);
        const box = start && chosen(start, here);
        this.overlay.querySelector(".selection")?.remove();
        if (box) {
          const [x, y, right, bottom] = box;
          this.overlay.append(svg("rect", { class: "selection", x, y, width: right - x, height: bottom - y }));
        } else if (!start) this.moveToNearest(here);
      });
      this.plot.addEventListener("pointerup", (event) => {
        const box = start && chosen(start, place(event));
        clear();
        if (box) this.zoomTo(...box);
        else if (this.area) this.moveToNearest(place(event));
      });
      this.plot.addEventListener("pointercancel", clear);
      this.plot.addEventListener("pointerleave", () => start || document.activeElement === this.plot || this.moveTo(null));
    }

    // -------------------------------------------------------------- numbers of the panel

    tables() {
      const { panel } = this;
      const rows = panel.series.flatMap((series) =>
        series.y.map((y, index) => [
          series.name,
          shown(series.x[index], 6),
          (series.is_limit?.[index] ? "> " : "") + shown(y, 6),
          series.error ? shown(series.error[index], 2) : "",
          series.upper ? shown(series.upper[index], 6) : "",
          series.notes?.[index] ?? "",
        ]),
      );
      const header = ["series", panel.x_label, panel.y_label, "±", "up to", "note"];
      const isUsed = header.map((_, column) => column < 3 || rows.some((row) => row[column]));
      const used = (cells) => cells.filter((_, column) => isUsed[column]);
      return [makeTable(panel.title || panel.y_label, used(header), rows.map(used))];
    }
  }

  const MOST_ROWS = 2000;

  function makeTable(caption, header, rows) {
    const cells = (row) =>
      row.map((cell, column) => html(column ? "td" : "th", { scope: column ? null : "row" }, ...withScripts(cell)));
    const remark = rows.length > MOST_ROWS ? ` (the first ${MOST_ROWS} of ${rows.length} rows)` : "";
    return html(
      "div",
      { class: "table", role: "region", tabindex: 0, "aria-label": `Data: ${withoutScripts(caption)}` },
      html(
        "table",
        {},
        html("caption", {}, ...withScripts(caption), remark),
        html("thead", {}, html("tr", {}, ...header.map((cell) => html("th", { scope: "col" }, ...withScripts(cell))))),
        html("tbody", {}, ...rows.slice(0, MOST_ROWS).map((row) => html("tr", {}, ...cells(row)))),
      ),
    );
  }

  /** A button for every name; pressed while its series are shown. */
  function makeLegend(panels, hidden, redraw) {
    const byName = new Map();
    for (const series of panels.flatMap((panel) => panel.series)) {
      byName.set(series.name, [...(byName.get(series.name) ?? []), series]);
    }
    const buttons = [...byName].filter(([name]) => name).map(([name, all]) =>
      html(
        "button",
        {
          type: "button",
          "aria-pressed": "true",
          click: (event) => {
            const isShown = hidden.has(name);
            if (isShown) hidden.delete(name);
            else hidden.add(name);
            event.currentTarget.setAttribute("aria-pressed", String(isShown));
            redraw();
          },
        },
        swatch(all),
        html("span", {}, ...withScripts(name)),
      ),
    );
    return html("div", { class: "legend", role: "group", "aria-label": "Show or hide" }, ...buttons);
  }

  // ---------------------------------------------------------------- a heat map

  // Matplotlib's cyclic map twilight_shifted: both ends have the same dark colour, the middle is light.
  const CYCLE = [
    "2f1436", "45135c", "592a8f", "5e51ad", "6276ba", "7297c1", "95b5c7", "c4ced4",
    "e2d9e2", "d8c7be", "cca389", "c27c63", "b25652", "983550", "741e4f", "4a1342",
  ].map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

  function cyclicColour(value, [low, high]) {
    if (!isNumber(value)) return "#888888";
    const turns = (value - low) / (high - low);
    const place = (turns - Math.floor(turns)) * CYCLE.length;
    const first = Math.floor(place) % CYCLE.length;
    const second = CYCLE[(first + 1) % CYCLE.length];
    const share = place - Math.floor(place);
    return `rgb(${CYCLE[first].map((part, index) => Math.round(part + share * (second[index] - part))).join(" ")})`;
  }

  function angle(value) {
    const turns = value / Math.PI;
    const names = { "-1": "−π", 0: "0", 1: "π", 2: "2π" };
    return Math.abs(turns - Math.round(turns)) < 1e-6 && names[Math.round(turns)] ? names[Math.round(turns)] : shown(value, 3);
  }

  function colourBar(range, label) {
    const width = 256;
    const canvas = html("canvas", { width, height: 1, "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    for (let column = 0; column < width; column++) {
      context.fillStyle = cyclicColour(range[0] + ((column + 0.5) / width) * (range[1] - range[0]), range);
      context.fillRect(column, 0, 1, 1);
    }
    const marks = [range[0], (range[0] + range[1]) / 2, range[1]].map(angle);
    return html(
      "div",
      { class: "colour-bar", role: "img", "aria-label": `Colours from ${marks[0]} to ${marks[2]}, cyclic` },
      canvas,
      html("div", { class: "marks" }, ...marks.map((mark) => html("span", {}, ...withScripts(mark)))),
      html("p", { class: "x-label" }, ...withScripts(label)),
    );
  }

  class MapView {
    constructor(maps, range) {
      this.maps = maps;
      this.range = range;
      this.cursor = null;
      this.title = html("h4");
      this.canvas = html("canvas", { role: "img" });
      this.summary = html("p", { class: "summary" });
      this.readout = html("p", { class: "readout", "aria-live": "polite" });
      this.plot = html(
        "div",
        {
          class: "plot",
          tabindex: 0,
          role: "application",
          keydown: (event) => this.onKey(event),
          focus: () => this.cursor ?? (this.plot.matches(":focus-visible") && this.moveTo([0, 0])),
          blur: () => this.moveTo(null),
          pointermove: (event) => this.point(event),
          pointerdown: (event) => this.point(event),
          pointerleave: () => document.activeElement === this.plot || this.moveTo(null),
        },
        this.canvas,
      );
      this.node = html("div", { class: "map" }, this.title, this.plot, this.summary, this.readout);
    }

    show(frame) {
      this.map = this.maps[frame];
      this.node.hidden = !this.map;
      if (!this.map) return;
      this.columns = this.map.values.length;
      this.rows = Math.max(0, ...this.map.values.map((column) => column.length));
      this.title.replaceChildren(...withScripts(this.map.title));
      this.summary.replaceChildren(...withScripts(this.statistics()));
      const label = `${withoutScripts(this.map.title)}: ${this.columns} by ${this.rows} values, ${withoutScripts(this.statistics())}.`;
      this.canvas.setAttribute("aria-label", label);
      this.plot.setAttribute("aria-label", `${label} Arrow keys read values.`);
      this.moveTo(this.cursor);
    }

    numbers() {
      const all = this.map.values.flat().filter(isNumber);
      const sum = all.reduce((total, value) => total + value, 0);
      const [least, most] = all.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
      return [least, most, sum / all.length].map((value) => shown(value, 3));
    }

    statistics() {
      const [least, most, mean] = this.numbers();
      return `min ${least}, max ${most}, mean ${mean}`;
    }

    draw() {
      if (!this.map) return;
      const size = Math.max(2, Math.round(512 / Math.max(this.columns, this.rows, 1)));
      this.canvas.width = Math.max(1, this.columns * size);
      this.canvas.height = Math.max(1, this.rows * size);
      const context = this.canvas.getContext("2d");
      this.map.values.forEach((column, i) =>
        column.forEach((value, j) => {
          context.fillStyle = cyclicColour(value, this.range);
          context.fillRect(i * size, (this.rows - 1 - j) * size, size, size);
        }),
      );
      if (!this.cursor) return;
      const corner = [this.cursor[0] * size, (this.rows - 1 - this.cursor[1]) * size];
      for (const [colour, width] of [["black", 5], ["white", 2.5]]) {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.strokeRect(...corner, size, size);
      }
    }

    point(event) {
      const box = this.canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * this.columns);
      this.moveTo([column, this.rows - 1 - Math.floor(((event.clientY - box.top) / box.height) * this.rows)]);
    }

    moveTo(cursor) {
      const within = (value, size) => Math.min(size - 1, Math.max(0, value));
      this.cursor = cursor && this.columns && this.rows ? [within(cursor[0], this.columns), within(cursor[1], this.rows)] : null;
      this.draw();
      if (!this.cursor) {
        this.readout.replaceChildren();
        return;
      }
      const [i, j] = this.cursor;
      this.readout.replaceChildren(...withScripts(`column ${i}, row ${j}: ${shown(this.map.values[i][j] ?? null, 4)}`));
    }

    onKey(event) {
      const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      const direction = directions[event.key];
      if (!direction || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const [i, j] = this.cursor ?? [0, 0];
      this.moveTo([i + direction[0], j + direction[1]]);
    }

    tables() {
      const [least, most, mean] = this.numbers();
      const numbers = [["minimum", least], ["maximum", most], ["mean", mean]];
      return [makeTable(this.map.title, ["of all sites", "value"], numbers)];
    }
  }

  // ---------------------------------------------------------------- charts and films

  const HINT = "Point at a plot to read values, drag across it to zoom. Keys: Tab to a plot, arrows read, + − 0 zoom.";
  const INTERVAL = 700;

  function makeFilmControls(film, show) {
    const last = film.frames.length - 1;
    let current = 0;
    let timer = null;
    const button = (label, action) => html("button", { type: "button", click: action }, label);
    const slider = html("input", { type: "range", min: 0, max: last, step: 1, value: 0 });
    const output = html("output", {});
    const pause = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
    };
    const go = (frame) => {
      current = Math.min(last, Math.max(0, frame));
      slider.value = current;
      slider.setAttribute("aria-valuetext", withoutScripts(film.frames[current].label));
      output.replaceChildren(...withScripts(film.frames[current].label));
      show(current);
      if (current === last && timer !== null) pause();
    };
    const step = (by) => () => {
      pause();
      go(current + by);
    };
    const play = button("Play", () => {
      if (timer !== null) return pause();
      if (current === last) go(0);
      timer = setInterval(() => go(current + 1), INTERVAL);
      play.textContent = "Pause";
    });
    // Who wants no motion steps from frame to frame.
    play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
    slider.addEventListener("input", () => {
      pause();
      go(Number(slider.value));
    });
    const node = html(
      "div",
      { class: "film-controls", role: "group", "aria-label": `Frames of ${withoutScripts(film.title)}` },
      button("Previous", step(-1)),
      play,
      button("Next", step(1)),
      html("label", {}, html("span", {}, "Frame"), slider),
      output,
    );
    node.hidden = last < 1;
    return { node, go };
  }

  /** Views of what stands at the same place in all frames. */
  function viewsOf(frames, key, make) {
    const most = Math.max(0, ...frames.map((frame) => frame[key].length));
    return Array.from({ length: most }, (_, place) => make(frames.map((frame) => frame[key][place])));
  }

  function bringToLife(figure, number) {
    const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const frames = data.frames ?? [{ label: "", panels: data.panels, maps: [] }];
    if (!frames.length) return;
    const hidden = new Set();
    const panelViews = viewsOf(frames, "panels", (panels) => new PanelView(panels, hidden, data.title));
    const mapViews = viewsOf(frames, "maps", (maps) => new MapView(maps, data.colour_range));
    const views = [...panelViews, ...mapViews];

    const numbers = html("div", { class: "numbers" });
    const details = html("details", {}, html("summary", {}, "Data as table"), numbers);
    const fill = () => {
      const tables = views.filter((view) => !view.node.hidden).flatMap((view) => view.tables());
      if (details.open) numbers.replaceChildren(...tables);
    };
    details.addEventListener("toggle", fill);

    const show = (frame) => {
      for (const view of views) view.show(frame);
      fill();
    };
    const film = data.frames ? makeFilmControls(data, show) : null;
    const columns = Math.max(1, Math.min(data.columns ?? views.length, views.length, 3));
    const plots = html("div", { class: "plots" }, ...views.map((view) => view.node));
    plots.style.setProperty("--columns", columns);
    plots.classList.toggle("single", columns === 1);

    const picture = figure.querySelector(".picture");
    const download = picture
      ? [html("a", { class: "download", href: picture.src, download: `${data.name}.png` }, "Picture (PNG)")]
      : [];
    const interactive = html(
      "div",
      { class: "interactive" },
      ...(film ? [film.node] : []),
      ...(panelViews.length
        ? [makeLegend(frames.flatMap((frame) => frame.panels), hidden, () => panelViews.forEach((view) => view.draw()))]
        : []),
      plots,
      ...(mapViews.length ? [colourBar(data.colour_range, data.colour_label)] : []),
      ...(number === 0 && panelViews.length ? [html("p", { class: "hint" }, HINT)] : []),
      html("div", { class: "more" }, details, ...download),
    );
    figure.querySelector("figcaption").before(interactive);
    if (film) film.go(0);
    else show(0);
    figure.classList.add("live");
  }

  function addCopyButton(figure) {
    const code = figure.querySelector("code");
    const button = html(
      "button",
      {
        type: "button",
        class: "copy",
        click: async () => {
          try {
            await navigator.clipboard.writeText(code.textContent);
            button.textContent = "Copied";
          } catch {
            // Not every browser lets a page from disk write there: the reader copies what is selected.
            getSelection().selectAllChildren(code);
            button.textContent = "Selected";
          }
          setTimeout(() => (button.textContent = "Copy"), 1500);
        },
      },
      "Copy",
    );
    figure.append(button);
  }

  document.querySelectorAll("figure.chart, figure.film").forEach((figure, number) => {
    try {
      bringToLife(figure, number);
    } catch (error) {
      // The picture stays.
      figure.querySelector(".interactive")?.remove();
      console.error(error);
    }
  });
  document.querySelectorAll("figure.code").forEach(addCopyButton);
})();

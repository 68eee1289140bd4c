"use strict";
// Draws the curves of the report. The data stand in the JSON element "data": for each study its optimizers and its
// views (evaluations, seconds, ...), for each view its panels, for each panel x, low, middle and high of every curve.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.getElementById("tip");
  const studies = JSON.parse(document.getElementById("data").textContent);
  const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

  window.addEventListener("error", (event) => {
    document.body.dataset.error = event.message;
  });

  function element(tag, attributes = {}, parent = null, text = null) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  function shape(tag, attributes, parent, text = null) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== null) node.textContent = text;
    parent.append(node);
    return node;
  }

  // numbers

  function power(exponent) {
    return "10" + [...String(exponent)].map((c) => SUPERSCRIPT[c]).join("");
  }

  function plain(value, digits = 4) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e5 || size < 1e-3) {
      const [mantissa, exponent] = value.toExponential(digits - 2).split("e");
      const short = Number(mantissa);
      return (short === 1 ? "" : short + "·") + power(Number(exponent));
    }
    return String(Number(value.toPrecision(digits)));
  }

  function linearTicks(low, high, count) {
    const raw = (high - low) / count;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit;
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  }

  function logTicks(low, high, count) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    if (last - first >= 1) {
      const stride = Math.ceil((last - first + 1) / count);
      const ticks = [];
      for (let e = first; e <= last; e++) if ((e - first) % stride === 0) ticks.push(10 ** e);
      return ticks;
    }
    const ticks = [];
    for (let e = first - 1; e <= last + 1; e++)
      for (const m of [1, 2, 5]) if (m * 10 ** e >= low * 0.999 && m * 10 ** e <= high * 1.001) ticks.push(m * 10 ** e);
    return ticks.length > 1 ? ticks : linearTicks(low, high, count).filter((tick) => tick > 0);
  }

  function axis(values, log, from, to, count, floor) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
    if (log && floor) low = Math.max(low, Math.min(floor, high / 10));
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    const map = log ? Math.log10 : (v) => v;
    const margin = 0.03 * (map(high) - map(low));
    const a = map(low) - margin, b = map(high) + margin;
    const at = (value) => from + ((map(log ? Math.max(value, 1e-300) : value) - a) / (b - a)) * (to - from);
    const back = (place) => { const v = a + ((place - from) / (to - from)) * (b - a); return log ? 10 ** v : v; };
    const [first, last] = log ? [10 ** a, 10 ** b] : [a, b];
    return { at, back, ticks: log ? logTicks(first, last, count) : linearTicks(first, last, count), log };
  }

  function tickLabel(value, log) {
    if (log && (value >= 1e4 || value < 0.01)) {
      const exponent = Math.floor(Math.log10(value) + 1e-9);
      const mantissa = Number((value / 10 ** exponent).toPrecision(3));
      return (mantissa === 1 ? "" : mantissa + "·") + power(exponent);
    }
    return plain(value);
  }

  // a panel

  function draw(study, state, holder) {
    const view = study.views[state.view], panel = view.panels[holder.index];
    const shown = study.optimizers.filter((o) => panel.curves[o.name] && !state.off.has(o.name));
    const width = Math.max(220, Math.round(holder.box.clientWidth || 360));
    const height = Math.round(holder.large ? Math.min(560, width * 0.5) : Math.max(180, Math.min(330, width * 0.62)));
    holder.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    holder.svg.replaceChildren();
    const xs = [], ys = [];
    for (const o of shown) {
      const c = panel.curves[o.name];
      xs.push(...c.x);
      ys.push(...c.middle);
      if (state.bands && c.low) ys.push(...c.low, ...c.high);
    }
    const top = 8, bottom = height - 38, right = width - 12;
    const ylog = state.ylog && panel.smaller;
    // values that only climb: the foot of the climb would squeeze what differs
    const focus = panel.smaller || panel.whole ? ys : ys.filter((v) => v !== null && v >= quantile(ys, 0.08));
    const y = axis(focus, ylog, bottom, top, Math.max(3, Math.round(height / 45)), panel.floor);
    const left = 26 + 6.2 * Math.max(3, ...y.ticks.map((tick) => tickLabel(tick, ylog).length));
    const x = axis(xs, state.xlog, left, right, Math.max(3, Math.round(width / 90)));
    const clip = `clip-${study.id}-${holder.index}`;
    const defs = shape("defs", {}, holder.svg);
    shape("rect", { x: left, y: top - 2, width: right - left + 2, height: bottom - top + 3 }, shape("clipPath", { id: clip }, defs));
    for (const tick of y.ticks) {
      const at = y.at(tick).toFixed(1);
      shape("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }, holder.svg);
      shape("text", { x: left - 6, y: Number(at) + 3.5, "text-anchor": "end" }, holder.svg, tickLabel(tick, y.log));
    }
    for (const tick of x.ticks) {
      const at = x.at(tick).toFixed(1);
      shape("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }, holder.svg);
      shape("text", { x: at, y: bottom + 14, "text-anchor": "middle" }, holder.svg, tickLabel(tick, x.log));
    }
    shape("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }, holder.svg);
    shape("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, holder.svg, view.xlabel);
    shape("text", { x: 11, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 11 ${(top + bottom) / 2})` }, holder.svg, panel.ylabel);
    const plot = shape("g", { "clip-path": `url(#${clip})` }, holder.svg);
    const place = (xv, yv) => (xv === null || yv === null || (x.log && xv <= 0) ? null : `${x.at(xv).toFixed(1)} ${y.at(yv).toFixed(1)}`);
    for (const o of shown) {
      const c = panel.curves[o.name];
      if (!state.bands || !c.low) continue;
      const ahead = c.x.map((v, i) => place(v, c.low[i])).filter(Boolean);
      const back = c.x.map((v, i) => place(v, c.high[i])).filter(Boolean).reverse();
      if (ahead.length) shape("path", { d: `M${ahead.concat(back).join("L")}Z`, fill: o.colour, opacity: 0.1 }, plot);
    }
    for (const o of shown) {
      const c = panel.curves[o.name];
      const points = c.x.map((v, i) => place(v, c.middle[i])).filter(Boolean);
      if (points.length)
        shape("path", { class: "curve", d: `M${points.join("L")}`, fill: "none", stroke: o.colour, "stroke-width": 1.8, "stroke-linejoin": "round", "stroke-dasharray": o.dashed ? "6 3" : "none" }, plot);
      if (points.length === 1) shape("circle", { cx: points[0].split(" ")[0], cy: points[0].split(" ")[1], r: 2.5, fill: o.colour }, plot);
    }
    const cursor = shape("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" }, holder.svg);
    holder.svg.onpointerleave = () => {
      cursor.setAttribute("visibility", "hidden");
      tip.hidden = true;
    };
    holder.svg.onpointermove = (event) => {
      const frame = holder.svg.getBoundingClientRect();
      const at = ((event.clientX - frame.left) / frame.width) * width;
      if (at < left || at > right) return holder.svg.onpointerleave();
      cursor.setAttribute("x1", at);
      cursor.setAttribute("x2", at);
      cursor.setAttribute("visibility", "visible");
      const value = x.back(at);
      hover(view, panel, shown, view.whole ? Math.floor(value + 1e-9) : value, event);
    };
    holder.svg.dataset.curves = plot.querySelectorAll(".curve").length;
  }

  function quantile(values, share) {
    const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
    return sorted[Math.floor(share * (sorted.length - 1))];
  }

  function hover(view, panel, shown, x, event) {
    const rows = [];
    for (const o of shown) {
      const c = panel.curves[o.name];
      if (x < c.x[0] * 0.98 || x > c.x[c.x.length - 1] * 1.02) continue;
      let i = 0;
      while (i + 1 < c.x.length && c.x[i + 1] <= x) i++;
      if (c.middle[i] !== null) rows.push({ o, middle: c.middle[i], range: c.low ? [c.low[i], c.high[i]] : null });
    }
    rows.sort((a, b) => (panel.smaller ? a.middle - b.middle : b.middle - a.middle));
    tip.replaceChildren();
    element("div", {}, tip, `${view.xlabel}: ${view.whole ? x : plain(x, 3)}`);
    const table = element("table", {}, tip);
    for (const { o, middle, range } of rows) {
      const row = element("tr", {}, table);
      const name = element("td", {}, row);
      element("i", { style: `background:${o.colour}` }, name);
      name.append(o.label);
      element("td", {}, row, plain(middle));
      if (range) element("td", { class: "range" }, row, `[${plain(range[0], 3)}, ${plain(range[1], 3)}]`);
    }
    tip.hidden = false;
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = `${event.clientX + 18 + wide > innerWidth ? Math.max(4, event.clientX - wide - 18) : event.clientX + 18}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY - high / 2, innerHeight - high - 4))}px`;
  }

  // a study

  function build(study) {
    const root = document.getElementById(`curves-${study.id}`);
    if (!study.views.length) return;
    const state = { view: 0, xlog: study.views[0].xlog, ylog: true, bands: true, off: new Set() };
    const controls = element("div", { class: "controls" }, root);
    const choice = element("div", { class: "choice", role: "group" }, controls);
    const buttons = study.views.map((view, i) => {
      const button = element("button", { type: "button", "data-view": view.key }, choice, view.label);
      button.onclick = () => { Object.assign(state, { view: i, xlog: view.xlog }); arrange(); };
      return button;
    });
    const boxes = [["xlog", "log x"], ["ylog", "log y"], ["bands", "quartiles"]].map(([key, text]) => {
      const label = element("label", {}, controls);
      const box = element("input", { type: "checkbox", "data-key": key }, label);
      label.append(text);
      box.onchange = () => { state[key] = box.checked; redraw(); };
      return [key, box];
    });
    const legend = element("div", { class: "legend" }, root);
    const keys = study.optimizers.map((o) => {
      const button = element("button", { type: "button", "data-optimizer": o.name }, legend);
      const line = shape("svg", { width: 20, height: 8 }, button);
      shape("line", { x1: 0, x2: 20, y1: 4, y2: 4, stroke: o.colour, "stroke-width": 3, "stroke-dasharray": o.dashed ? "6 3" : "none" }, line);
      button.append(o.label);
      button.onclick = () => { if (!state.off.delete(o.name)) state.off.add(o.name); redraw(); };
      button.ondblclick = () => {
        const others = study.optimizers.filter((p) => p.name !== o.name);
        const alone = others.every((p) => state.off.has(p.name));
        state.off = new Set(alone ? [] : others.map((p) => p.name));
        redraw();
      };
      return [o.name, button];
    });
    element("span", { class: "hint" }, legend, "click: hide or show · double click: alone");
    const panels = element("div", { class: "panels" }, root);
    let holders = [];

    function arrange() {
      const view = study.views[state.view];
      panels.replaceChildren();
      panels.style.setProperty("--columns", Math.min(view.columns, view.panels.length));
      holders = view.panels.map((panel, index) => {
        const box = element("figure", { class: "panel" }, panels);
        const caption = element("figcaption", {}, box);
        element("span", {}, caption, panel.title);
        const svg = shape("svg", { class: "plot", role: "img", "aria-label": panel.title }, box);
        const holder = { box, svg, index, large: view.panels.length === 1 };
        if (view.panels.length > 1) {
          const grow = element("button", { type: "button" }, caption, "enlarge");
          grow.onclick = () => {
            holder.large = box.classList.toggle("large");
            grow.textContent = holder.large ? "shrink" : "enlarge";
            draw(study, state, holder);
          };
        }
        return holder;
      });
      redraw();
    }

    function redraw() {
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === state.view));
      for (const [key, box] of boxes) box.checked = state[key];
      for (const [name, button] of keys) button.setAttribute("aria-pressed", !state.off.has(name));
      for (const holder of holders) draw(study, state, holder);
    }

    arrange();
    addEventListener("resize", redraw);
  }

  studies.forEach(build);
  document.body.dataset.figures = studies.reduce((sum, study) => sum + (study.views.length ? study.views[0].panels.length : 0), 0);
  document.body.dataset.drawn = [...document.querySelectorAll("svg.plot")].filter((svg) => Number(svg.dataset.curves) > 0).length;
})();

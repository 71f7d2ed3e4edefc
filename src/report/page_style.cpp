#include "report/page_style.h"

#include <array>

#include "base/text.h"
#include "plan/palette.h"

namespace zt::report {
namespace {

// Neighbours in this order look least alike.
constexpr std::array<std::size_t, kColors> kPaints = {4, 5, 1, 2, 6, 3};

std::string color_rules(bool dark) {
  std::string out;
  for (std::size_t i = 0; i < kPaints.size(); ++i) {
    const plan::Paint& paint = plan::layer_paint(kPaints[i]);
    out += cat("--r", i, ":", plan::hex(dark ? paint.dark : paint.light), ";");
  }
  return out;
}

constexpr const char* kRules = R"(
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:8px 36px}
.charts .chart:first-child{grid-column:1/-1}
@media (max-width:800px){.charts{grid-template-columns:minmax(0,1fr)}}
.chart{margin:14px 0 6px;min-width:0}
.chart figcaption{margin:0 0 4px;color:var(--ink);font-size:15px}
.frame{display:flex}.area{position:relative;flex:1;min-width:0}
.chart .area>svg{width:100%;display:block;overflow:visible}
.chart .gutter{width:68px;flex:none;display:block}
.chart .plot{overflow:hidden}
.chart text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:var(--soft);
  font-variant-numeric:tabular-nums}
.chart .grid{stroke:var(--line);stroke-width:1;opacity:.7}
.chart .axis{stroke:var(--soft);stroke-width:1}
.line{fill:none;stroke-width:1.6;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.line.seldom{stroke-width:2.4}
.line.plan{stroke-width:1.6;stroke-dasharray:2 4}
.band{stroke:none;opacity:.2}
.dot{stroke:var(--ground);stroke-width:1}
.d1{stroke-dasharray:9 4}.d2{stroke-dasharray:3 3}.d3{stroke-dasharray:11 3 2 3}
.mark line{stroke-width:1.5;stroke:var(--soft);opacity:.55}
.mark.good line{stroke:var(--good);stroke-dasharray:4 3;opacity:1}
.mark.bad line{stroke:var(--bad);opacity:.9}
.keys{display:flex;flex-wrap:wrap;gap:2px 18px;margin:2px 0;font-size:14px;color:var(--ink)}
.keys span,.keys label{display:inline-flex;align-items:center;gap:7px}
.keys svg{width:34px;height:10px;flex:none;display:block}
td:last-child{min-width:12em}
.keys.runs{max-width:none;position:sticky;top:0;background:var(--ground);padding:8px 0;font-size:15px;z-index:2;
  border-bottom:1px solid var(--line)}
.keys input{margin:0;accent-color:var(--soft);display:none}
.script .keys input{display:inline}
.hair{position:absolute;top:0;width:1px;background:var(--soft);pointer-events:none;display:none}
.tip{position:absolute;top:6px;pointer-events:none;display:none;background:var(--card);border:1px solid var(--line);
  border-radius:6px;padding:4px 8px;font-size:12px;line-height:1.45;white-space:nowrap;z-index:1;max-width:95%;
  overflow:hidden;font-variant-numeric:tabular-nums}
.off{display:none}
details{margin:10px 0}summary{cursor:pointer;font-weight:600}
pre{overflow-x:auto;padding:12px;border:1px solid var(--line);border-radius:6px;background:var(--card);
  font:13px/1.45 ui-monospace,'DejaVu Sans Mono',monospace;margin:8px 0}
.event-bad{color:var(--bad)}.event-good{color:var(--good)}
@media print{.keys.runs{position:static}}
)";

constexpr const char* kScript = R"(
(() => {
  document.documentElement.classList.add('script');
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  const say = (v, unit) => {
    if (unit == 'percent') return (100 * v).toFixed(1) + ' %';
    if (unit == 'count') return Math.round(v).toLocaleString('en');
    if (unit == 'bytes') { let i = 0; while (Math.abs(v) >= 1024 && i < 5) v /= 1024, ++i;
      return v.toFixed(i ? 2 : 0) + ' ' + units[i]; }
    if (unit == 'seconds') return v == 0 ? '0 s' : v < 1e-3 ? (1e6 * v).toPrecision(3) + ' µs' :
      v < 1 ? (1e3 * v).toPrecision(3) + ' ms' : v.toPrecision(3) + ' s';
    return v == 0 ? '0' : Math.abs(v) < 1e-3 || Math.abs(v) >= 1e7 ? v.toExponential(2) : v.toPrecision(5);
  };
  const charts = [...document.querySelectorAll('.chart')].map(f => {
    const frame = f.querySelector('.area'), add = c => { const e = document.createElement('div');
      e.className = c; frame.append(e); return e; };
    const d = k => parseFloat(f.dataset[k]);
    const lines = [...f.querySelectorAll('.plot .line')].map(p => {
      const n = p.getAttribute('d').replace(/h4$/, '').match(/-?[\d.]+/g).map(Number), points = [];
      for (let i = 0; i + 1 < n.length; i += 2) points.push([n[i], n[i + 1]]);
      return {p, points};
    });
    return {frame, lines, hair: add('hair'), tip: add('tip'), first: d('first'), last: d('last'), low: d('low'),
      high: d('high'), height: d('height'), unit: f.dataset.unit};
  });
  const nearest = (points, x) => {
    let a = 0, b = points.length - 1;
    while (b - a > 1) { const m = a + b >> 1; points[m][0] < x ? a = m : b = m; }
    return Math.abs(points[a][0] - x) < Math.abs(points[b][0] - x) ? points[a] : points[b];
  };
  const hide = () => charts.forEach(c => c.hair.style.display = c.tip.style.display = 'none');
  const show = share => charts.forEach(c => {
    const step = Math.round(c.first + share * (c.last - c.first)), rows = [['step', step.toLocaleString('en')]];
    c.lines.forEach(l => {
      if (l.p.classList.contains('off') || !l.points.length) return;
      const y = nearest(l.points, 1000 * share)[1];
      rows.push([l.p.dataset.name, say(c.high - y / c.height * (c.high - c.low), c.unit)]);
    });
    c.tip.replaceChildren(...rows.slice(0, 13).map(r => { const e = document.createElement('div');
      e.textContent = r[0] + '  ' + r[1]; return e; }));
    c.hair.style.display = c.tip.style.display = 'block';
    c.hair.style.left = 100 * share + '%';
    c.hair.style.height = c.height + 8 + 'px';
    c.tip.style.left = share < .5 ? 'calc(' + 100 * share + '% + 10px)' : 'auto';
    c.tip.style.right = share < .5 ? 'auto' : 'calc(' + 100 * (1 - share) + '% + 10px)';
  });
  charts.forEach(c => {
    c.frame.addEventListener('pointermove', e => { const b = c.frame.getBoundingClientRect();
      show(Math.min(1, Math.max(0, (e.clientX - b.left) / b.width))); });
    c.frame.addEventListener('pointerleave', hide);
  });
  document.querySelectorAll('.keys input').forEach(box => box.addEventListener('change', () =>
    document.querySelectorAll('[data-run="' + box.value + '"]').forEach(e => e.classList.toggle('off', !box.checked))));
})();
)";

}  // namespace

std::string report_style() {
  std::string out =
      cat(":root{", color_rules(false), "}\n@media screen and (prefers-color-scheme:dark){:root{",
          color_rules(true), "}}\n", kRules);
  for (int i = 0; i < kColors; ++i)
    out += cat(".line.r", i, "{stroke:var(--r", i, ")}.band.r", i, ",.dot.r", i, "{fill:var(--r", i, ")}\n");
  return out;
}

std::string report_script() { return kScript; }

}  // namespace zt::report

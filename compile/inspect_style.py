"""Colours and layout of the page that `inspect --html` writes."""

# Distinct also to people who confuse red and green (the Okabe-Ito set, and grey for the rest).
PALETTE = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#b8a800",
    "#8a8a8a",
)
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #667; --line: #d7dbe0; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e6ea; --dim: #99a; --line: #3a4048; --paper: #14171b; }
}
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1160px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 12px; }
h2 { font-size: 18px; margin: 36px 0 10px; border-bottom: 1px solid var(--line); }
h3 { font-size: 14px; margin: 20px 0 6px; font-weight: 600; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 14px; }
.cards div { border: 1px solid var(--line); border-radius: 8px; padding: 8px 16px;
  color: var(--dim); }
.cards b { display: block; font-size: 20px; color: var(--ink); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
th { color: var(--dim); font-weight: 500; }
header td:first-child { color: var(--dim); width: 90px; }
.launches { font-size: 12px; }
.launches td { overflow-wrap: normal; }
.launches td:nth-child(n+5) { text-align: right; white-space: nowrap; }
.launches th { white-space: nowrap; }
.launches th:nth-child(n+5) { text-align: right; }
.launches td:nth-child(2), .launches td:nth-child(3) { overflow-wrap: anywhere; min-width: 150px; }
.launches td:nth-child(4) { width: 104px; }
.bar { display: block; height: 12px; border-radius: 2px; margin-top: 3px; }
.legend span { margin-right: 16px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px;
  margin-right: 5px; }
.small { color: var(--dim); font-size: 12px; }
code { font: 12px ui-monospace, monospace; }
svg { width: 100%; display: block; }
svg text { font: 10px system-ui, sans-serif; fill: var(--ink); }
svg .number { fill: #fff; text-anchor: middle; pointer-events: none; font-size: 9px; }
svg .axis { text-anchor: end; fill: var(--dim); }
svg .tick { text-anchor: middle; fill: var(--dim); }
svg .frame { fill: none; stroke: var(--line); }
svg .grid { stroke: var(--line); stroke-width: .5; }
svg .edge { fill: none; stroke: var(--dim); stroke-width: 1; opacity: .55; }
svg .block { stroke: var(--paper); stroke-width: .7; }
svg g:hover .block, svg g:hover circle { opacity: .7; }
"""

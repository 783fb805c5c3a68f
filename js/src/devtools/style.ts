/**
 * The panel's style sheet. It is a constructed one, which a policy of `style-src 'self'` allows. Applications set the
 * variables that begin with `--escale-`.
 */

export const STYLE = `
:host {
  --dt-ink: var(--escale-ink, light-dark(#0e2431, #e4eff3));
  --dt-ink-2: var(--escale-ink-2, light-dark(#3f5866, #b0c6d0));
  --dt-surface: var(--escale-surface, light-dark(#ffffff, #0f1f2a));
  --dt-surface-2: var(--escale-surface-2, light-dark(#f1f6f8, #16303f));
  --dt-line: var(--escale-line, light-dark(#c9d7dd, #2a4757));
  --dt-accent: var(--escale-accent, light-dark(#0b6674, #5ccbd3));
  --dt-accent-ink: var(--escale-accent-ink, light-dark(#ffffff, #04232a));
  --dt-good: var(--escale-good, light-dark(#0b6b45, #5fd6a0));
  --dt-warn: var(--escale-warn, light-dark(#84500a, #f2bb62));
  --dt-bad: var(--escale-bad, light-dark(#b3261e, #ff8f86));
  --dt-mono: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  color-scheme: light dark;
  display: block;
  color: var(--dt-ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  text-align: left;
}
:host([hidden]) { display: none; }
:host([docked]) { position: fixed; z-index: 2147483000; right: 0; bottom: 0; left: 0; pointer-events: none; }
:host([docked]) > * { pointer-events: auto; }
* { box-sizing: border-box; }
.box { display: flex; flex-direction: column; min-height: 0; height: 100%; background: var(--dt-surface); }
:host([docked]) .box { height: min(56vh, 520px); border-top: 2px solid var(--dt-accent); box-shadow: 0 -8px 30px rgb(0 0 0 / 22%); }
[hidden] { display: none !important; }
.toggle { position: fixed; right: 12px; bottom: 12px; border-radius: 99px; box-shadow: 0 2px 10px rgb(0 0 0 / 25%); }
.head { display: flex; flex: none; align-items: stretch; border-bottom: 1px solid var(--dt-line); }
.tabs { display: flex; flex: 1; min-width: 0; gap: 2px; padding: 0 8px; overflow-x: auto; scrollbar-width: thin; }
.tabs button { flex: none; min-height: 44px; padding: 0 10px; border: 0; border-bottom: 3px solid transparent; border-radius: 0; background: none; color: var(--dt-ink-2); font-weight: 600; }
.tabs button[aria-selected="true"] { border-bottom-color: var(--dt-accent); color: var(--dt-accent); }
.close { flex: none; width: 44px; border: 0; background: none; font-size: 20px; }
.panel { flex: 1; min-height: 0; padding: 14px 16px 20px; overflow: auto; }
.panel > * { max-width: 1100px; }
h3 { margin: 16px 0 6px; font-size: 15px; }
h3:first-child { margin-top: 0; }
p { margin: 0 0 10px; }
.none { color: var(--dt-ink-2); }
button, select, input { min-height: 34px; padding: 0 12px; border: 1px solid var(--dt-line); border-radius: 7px; background: var(--dt-surface-2); color: var(--dt-ink); font: inherit; }
button { cursor: pointer; }
button:hover { border-color: var(--dt-accent); }
button.main { border-color: var(--dt-accent); background: var(--dt-accent); color: var(--dt-accent-ink); font-weight: 600; }
:focus-visible { outline: 3px solid var(--dt-accent); outline-offset: 1px; }
.panel:focus-visible, .tabs button:focus-visible, .scroll:focus-visible, pre:focus-visible { outline-offset: -3px; }
.row { display: flex; flex-wrap: wrap; align-items: end; gap: 8px; margin-bottom: 12px; }
.row label { display: grid; gap: 2px; color: var(--dt-ink-2); font-size: 13px; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--dt-line); color: var(--dt-ink-2); font-size: 12.5px; font-weight: 600; text-align: left; white-space: nowrap; }
td { padding: 5px 12px 5px 0; white-space: nowrap; border-bottom: 1px solid var(--dt-line); vertical-align: top; }
td code { display: inline-block; min-width: 16ch; white-space: normal; }
td p { white-space: normal; }
td button { min-height: 26px; padding: 0 8px; font-size: 13px; }
code, pre, .mono { font-family: var(--dt-mono); font-size: 12px; overflow-wrap: anywhere; }
pre { max-height: 420px; margin: 0; padding: 10px 12px; border: 1px solid var(--dt-line); border-radius: 8px; background: var(--dt-surface-2); overflow: auto; line-height: 1.55; }
.wrap { white-space: pre-wrap; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 230px), 1fr)); gap: 2px 20px; margin: 0 0 12px; }
dl > div { display: flex; gap: 8px; padding: 4px 0; border-bottom: 1px solid var(--dt-line); }
dt { flex: none; min-width: 92px; color: var(--dt-ink-2); }
dd { min-width: 0; margin: 0; overflow-wrap: anywhere; }
details { border-bottom: 1px solid var(--dt-line); }
summary { padding: 6px 0; cursor: pointer; overflow-wrap: anywhere; }
details pre { margin: 0 0 10px; }
.tag { display: inline-block; padding: 0 8px; border: 1px solid currentcolor; border-radius: 99px; color: var(--dt-ink-2); font-size: 12px; font-weight: 600; white-space: nowrap; }
.good { color: var(--dt-good); } .warn { color: var(--dt-warn); } .bad { color: var(--dt-bad); }
@media (max-width: 560px) {
  :host([docked]) .box { height: 72vh; }
  .panel { padding: 12px; }
  td, th { padding-right: 9px; }
}
`;

# Copyright 2026 The robot_infer authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""The look of a report's page: one style sheet, light and dark, from a phone to a wide screen."""

STYLE = """
:root {
  --page: #f6f5f2; --panel: #ffffff; --ink: #1d2125; --muted: #626a73; --grid: #d9d8d3;
  --accent: #2f6db3; --good: #1f7a4d; --bad: #c2342b; --band: #eeece6;
  --series-0: #9aa1a9; --series-1: #d3b35c; --series-2: #2f6db3; --series-3: #3f9d77;
  --series-4: #d9803a; --series-5: #8a63ad;
  --font: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15171a; --panel: #1e2125; --ink: #e8e6e1; --muted: #a3a9b0; --grid: #3a3f45;
    --accent: #6ea8e8; --good: #5cc48f; --bad: #f0776d; --band: #262a2f;
    --series-0: #7b838c; --series-1: #cfb466; --series-2: #5f9fe0; --series-3: #57b98f;
    --series-4: #e39a5b; --series-5: #ad8bd0;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 var(--font); }
main { max-width: 1120px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 1.15rem; margin: 40px 0 12px; }
h3 { font-size: 0.95rem; margin: 0; }
p { margin: 0; }
.when { color: var(--muted); margin-top: 6px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(238px, 1fr)); gap: 12px;
         margin-top: 24px; }
.tile, figure, .panel { background: var(--panel); border: 1px solid var(--grid);
                        border-radius: 10px; }
.tile { padding: 12px 16px 14px; }
.tile .label { color: var(--muted); font-size: 0.82rem; }
.tile .value { font-size: 1.55rem; line-height: 1.25; font-weight: 650;
               font-variant-numeric: tabular-nums; }
.tile .value.good { color: var(--good); }
.tile .value.bad { color: var(--bad); }
.tile .detail { color: var(--muted); font-size: 0.78rem; line-height: 1.4; margin-top: 2px; }
figure { margin: 0; padding: 14px 16px 10px; }
figcaption p { color: var(--muted); font-size: 0.82rem; margin-top: 2px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr));
         gap: 14px; margin-top: 14px; }
.plot { display: block; width: 100%; height: auto; margin-top: 6px; }
.plot text { font-family: var(--font) !important; }
.scroll { overflow-x: auto; }
.scroll .plot { min-width: 760px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin-top: 8px; font-size: 0.8rem;
          color: var(--muted); }
.legend span::before { content: ""; display: inline-block; width: 11px; height: 11px;
                       border-radius: 3px; margin-right: 6px; background: var(--swatch); }
.legend .line::before { height: 0; width: 16px; border-radius: 0; vertical-align: middle;
                        border-top: 2px dashed var(--swatch); background: none; }
.shots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 262px), 1fr));
         gap: 14px; }
.shot { padding: 0; overflow: hidden; }
.shot figcaption { padding: 10px 14px 12px; }
.frame { position: relative; line-height: 0; background: #000; }
.frame img { width: 100%; height: auto; }
.frame svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.frame text { font: 600 17px var(--font); fill: #fff; stroke: #000; stroke-width: 4px;
              paint-order: stroke; stroke-linejoin: round; }
.chip { display: inline-block; font-size: 0.74rem; font-weight: 650; border-radius: 99px;
        padding: 1px 9px; color: #fff; background: var(--good); float: right; margin-left: 8px; }
.chip.failed { background: var(--bad); }
@media (prefers-color-scheme: dark) { .chip { color: #15171a; } }
.panel { padding: 4px 16px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.86rem;
        font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--muted); font-weight: 550; }
th, td { padding: 7px 12px 7px 0; border-bottom: 1px solid var(--grid); white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; }
td.wrap { white-space: normal; overflow-wrap: anywhere; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 3px;
          margin-right: 8px; }
.bad { color: var(--bad); }
details { margin-top: 12px; }
summary { cursor: pointer; padding: 8px 0; font-weight: 550; font-size: 0.92rem; }
ul { margin: 0; padding: 10px 0 10px 20px; font-size: 0.88rem; }
footer { color: var(--muted); font-size: 0.8rem; margin-top: 36px; }
@media (max-width: 560px) {
  main { padding: 20px 12px 40px; }
  h1 { font-size: 1.35rem; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tile { padding: 10px 12px; }
  .tile .value { font-size: 1.25rem; }
  figure { padding: 12px 12px 8px; }
}
"""

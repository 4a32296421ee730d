/*
 * Copyright 2026 The robot_infer authors
 *
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

/* The memory bar and its sliders. The numbers are those of numbers.py, computed the same way; every
 * size stands in data-bytes too, to the byte. */
'use strict';

const plan = JSON.parse(document.getElementById('plan-data').textContent);
const byId = id => document.getElementById(id);

/* ---- what numbers.py computes ------------------------------------------------------------- */

const ceilDiv = (a, b) => Math.ceil(a / b);

function pagesOfGroup(tokens, window) {
  const pages = ceilDiv(tokens, plan.pageTokens);
  return window === null ? pages : Math.min(pages, ceilDiv(window - 1, plan.pageTokens) + 1);
}

function headsOfGroup(group, choice) {
  return group.heads === plan.groups[0].heads ? plan.stops.heads[choice.heads] : group.heads;
}

function tokenBytesOfGroup(group, choice) {
  return group.layers * 2 * headsOfGroup(group, choice) * group.headBytes[choice.format];
}

function kvBytes(tokens, choice) {
  return plan.groups.reduce((sum, group) => sum + pagesOfGroup(tokens, group.window) *
    plan.pageTokens * tokenBytesOfGroup(group, choice), 0);
}

function cameraBytes(line, choice) {
  if (line.byCameras.length) return line.byCameras[choice.cameras];
  const cameras = plan.stops.cameras[choice.cameras];
  const each = line.perCamera;
  if (!each.length) return line.base;
  const more = Math.max(0, cameras - each.length);
  return line.base + each.slice(0, cameras).reduce((a, b) => a + b, 0) +
    more * each[each.length - 1];
}

function recompute(choice) {
  const pages = plan.stops.pages[choice.pages], cameras = plan.stops.cameras[choice.cameras];
  const tokens = pages * plan.pageTokens;
  const lines = plan.lines.map(
    line => line.kv ? kvBytes(tokens, choice) : cameraBytes(line, choice));
  const prefixTokens = cameras * plan.cameraTokens + plan.otherTokens;
  const prefixPages = ceilDiv(prefixTokens, plan.pageTokens);
  const tokenBytes = plan.groups.reduce((sum, one) => sum + tokenBytesOfGroup(one, choice), 0);
  return {
    lines, pages, tokens, prefixTokens, tokenBytes, pageBytes: tokenBytes * plan.pageTokens,
    bytes: lines.reduce((sum, one, k) => sum + (plan.lines[k].counts ? one : 0), 0),
    minPages: plan.livePrefixes * (prefixPages + 1) + plan.suffixPages,
    prefixes: Math.floor(pages / Math.max(1, prefixPages)),
  };
}

/* ---- words -------------------------------------------------------------------------------- */

const UNITS = [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]];

function size(bytes) {
  for (const [unit, one] of UNITS) {
    const value = Math.abs(bytes) / one;
    if (value >= 1) return `${bytes < 0 ? '-' : ''}${value.toFixed(value < 100 ? 2 : 0)} ${unit}`;
  }
  return `${bytes} bytes`;
}

const count = number => number.toLocaleString('en-US');

function showBytes(element, bytes) {
  element.textContent = size(bytes);
  element.dataset.bytes = bytes;
  element.title = `${count(bytes)} bytes = ${(bytes / 1e9).toFixed(3)} GB`;
}

/* ---- the page ----------------------------------------------------------------------------- */

const NAMES = ['format', 'heads', 'pages', 'cameras'];
const sliders = Object.fromEntries(NAMES.map(name => [name, byId(`slider-${name}`)]));
const segments = [...document.querySelectorAll('#bar .segment')];
const rows = [...document.querySelectorAll('#lines tbody tr')];

function choose() {
  return Object.fromEntries(NAMES.map(name => [name, Number(sliders[name].value)]));
}

function wordsOf(choice, numbers) {
  return {
    format: plan.stops.format[choice.format],
    heads: `${plan.stops.heads[choice.heads]} of ${plan.queryHeads} query heads`,
    pages: `${count(numbers.tokens)} tokens in ${count(numbers.pages)} pages`,
    cameras: `${plan.stops.cameras[choice.cameras]}`,
  };
}

function verdictOf(numbers) {
  const left = plan.usable - numbers.bytes;
  if (left < 0) {
    return ['bad', `Memory does not suffice: ${size(numbers.bytes)} are needed, ` +
      `${size(plan.usable)} are usable; ${size(-left)} are lacking.`];
  }
  if (numbers.pages < numbers.minPages) {
    return ['bad', `Too few pages: a step needs ${count(numbers.minPages)}, to read one prefix ` +
      `of ${count(numbers.prefixTokens)} tokens and fill the next.`];
  }
  return ['good', `Memory suffices: ${size(numbers.bytes)} of ${size(plan.usable)} usable; ` +
    `${size(left)} are left.`];
}

function drawAxis(scale) {
  const axis = byId('axis');
  axis.replaceChildren();
  const [unit, one] = UNITS.find(([, bytes]) => scale >= bytes) || ['KiB', 1024];
  let step = 10 ** Math.floor(Math.log10(scale / one));
  const wanted = axis.clientWidth < 480 ? 4 : 8;
  for (const factor of [0.1, 0.2, 0.5, 1, 2, 5]) {
    if (scale / one / (step * factor) <= wanted) { step *= factor; break; }
  }
  for (let k = 0; k * step * one <= 0.97 * scale; k++) {
    const tick = document.createElement('span');
    tick.textContent = k ? `${Number((k * step).toPrecision(6))}` : `0 ${unit}`;
    tick.style.left = `${100 * k * step * one / scale}%`;
    axis.append(tick);
  }
}

function drawBar(numbers) {
  const bar = byId('bar'), scale = Math.max(plan.usable, numbers.bytes) * 1.04;
  segments.forEach(segment => {
    const line = Number(segment.dataset.line);
    segment.style.width = `${100 * numbers.lines[line] / scale}%`;
    const room = bar.clientWidth * numbers.lines[line] / scale, {name} = plan.lines[line];
    segment.textContent = room > 7.2 * Math.max(...name.split(' ').map(one => one.length)) + 10 &&
      room * 3 > 7.2 * name.length ? name : '';
    segment.title = `${plan.lines[line].name}: ${size(numbers.lines[line])}`;
  });
  byId('usable').style.left = `${100 * plan.usable / scale}%`;
  byId('usable').classList.toggle('flip', plan.usable / scale > 0.6);
  byId('over').style.left = `${100 * plan.usable / scale}%`;
  byId('over').style.width = `${100 * Math.max(0, numbers.bytes - plan.usable) / scale}%`;
  bar.setAttribute('aria-label', `Memory bar: ${size(numbers.bytes)} planned of ` +
    `${size(plan.usable)} usable. ` + plan.lines.map(
    (line, k) => `${line.name} ${size(numbers.lines[k])}`).join(', '));
  drawAxis(scale);
}

function show() {
  const choice = choose(), numbers = recompute(choice);
  const words = wordsOf(choice, numbers);
  NAMES.forEach(name => {
    byId(`output-${name}`).textContent = words[name];
    sliders[name].setAttribute('aria-valuetext', words[name]);
    sliders[name].closest('.control').classList.toggle(
      'changed', choice[name] !== plan.planned[name]);
  });
  const [kind, sentence] = verdictOf(numbers);
  const verdict = byId('verdict');
  if (verdict.textContent !== sentence) verdict.textContent = sentence;
  verdict.className = kind;
  showBytes(byId('tile-planned'), numbers.bytes);
  showBytes(byId('tile-usable'), plan.usable);
  showBytes(byId('tile-left'), plan.usable - numbers.bytes);
  byId('tile-left').className = `value ${numbers.bytes > plan.usable ? 'bad' : 'good'}`;
  showBytes(byId('tile-token'), numbers.tokenBytes);
  byId('detail-token').textContent = `${size(numbers.pageBytes)} a page of ${plan.pageTokens}`;
  byId('tile-prefixes').textContent = count(numbers.prefixes);
  byId('detail-prefixes').textContent = `of ${count(numbers.prefixTokens)} tokens; a step needs ` +
    `${count(numbers.minPages)} pages, there are ${count(numbers.pages)}`;
  rows.forEach(row => {
    const line = Number(row.dataset.line), bytes = numbers.lines[line];
    showBytes(row.querySelector('.bytes'), bytes);
    row.querySelector('.share').textContent = plan.lines[line].counts
      ? `${(100 * bytes / Math.max(1, numbers.bytes)).toFixed(1)} %` : 'host';
    row.classList.toggle('changed', bytes !== plan.lines[line].bytes);
  });
  byId('reset').disabled = NAMES.every(name => choice[name] === plan.planned[name]);
  drawBar(numbers);
}

function highlight(line) {
  [...segments, ...rows].forEach(
    one => one.classList.toggle('lit', line !== null && one.dataset.line === line));
}

NAMES.forEach(name => sliders[name].addEventListener('input', show));
byId('reset').addEventListener('click', () => {
  NAMES.forEach(name => { sliders[name].value = plan.planned[name]; });
  show();
  sliders.format.focus();
});
[...segments, ...rows].forEach(one => {
  one.addEventListener('pointerenter', () => highlight(one.dataset.line));
  one.addEventListener('pointerleave', () => highlight(null));
});
new ResizeObserver(show).observe(byId('axis'));
show();
